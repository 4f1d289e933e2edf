// Loaders of images and labels, for tests.
#pragma once

#include <cstring>
#include <functional>
#include <utility>

#include "runtime/data/loader.h"
#include "runtime/data/vision/image_pipeline.h"

namespace rewire::runtime {

/// A network that takes images of that shape and labels, and [transforms].
inline PipelineContext images_under(const ir::Attributes& transforms, const ir::Shape& network,
                                    bool training = true, std::uint64_t seed = 7) {
  PipelineContext context;
  context.asked = source_context({.image = network, .classes = 1}).asked;
  context.transforms = transforms;
  context.training = training;
  context.seed = seed;
  return context;
}

/// The options with what a pipeline gives.
inline LoaderOptions with_rows(LoaderOptions options, const Pipeline& pipeline) {
  options.fields = pipeline.fields();
  options.made = pipeline.made();
  options.finish = [&pipeline](Batch& batch) { pipeline.finish(batch); };
  return options;
}
inline SampleFunction samples_of(const ImagePipeline& pipeline, const SampleOptions& options = {}) {
  return sample_function(
      pipeline.source(), [&pipeline](const Visit& visit, SampleRow row) { pipeline.read(visit, row); },
      options);
}

/// The options for images of that shape and labels, without a pipeline.
inline LoaderOptions with_images(LoaderOptions options, const ir::Shape& image) {
  options.fields = {{"image", {ir::DType::f32, image}}, {"label", {ir::DType::i64, {}}}};
  return options;
}
/// `make` writes an image and returns its label.
inline SampleFunction labelled(std::function<std::int64_t(const Visit& visit, std::span<float> image)> make) {
  return [make = std::move(make)](const Visit& visit, SampleRow row) {
    const std::int64_t label =
        make(visit, {reinterpret_cast<float*>(row[0].data()), row[0].size() / sizeof(float)});
    std::memcpy(row[1].data(), &label, sizeof label);
    return true;
  };
}

}  // namespace rewire::runtime

// A network as a source of features: of a run or of a model with weights, its head or decoder left off, on the images of
// its recipe's data or on those of a file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/analyze/features.h"
#include "runtime/exec/engine.h"
#include "runtime/network/data_feed.h"
#include "runtime/run/trained_network.h"

namespace rewire::runtime {

struct BackboneRequest {
  TrainedRequest trained;  // without weights: fresh ones
  std::string engine;      // of engine_names(), or cuda
};

/// Features of some images, with their labels.
struct FeatureSet {
  std::vector<float> rows;  // [images, patches, width], or [images, width]
  std::vector<std::int64_t> labels;
  // Where images are kept: [images, channels, height, width], and what they are called (of a pass in order).
  std::vector<float> images;
  std::vector<std::string> names;
  std::int64_t left_out = 0;  // images before the last of them that could not be read
  std::int64_t count() const { return std::ssize(labels); }
};
/// UserError where some are left out, so that what `option` gives image by image would be another image's.
void require_all_read(const FeatureSet& set, std::string_view option);

/// How images are taken: their split, augmented as `epoch` of training sees them, or (-1) in order as evaluation does.
struct ImagePass {
  Split split = Split::train;
  std::int64_t epoch = -1;
  std::int64_t images = 0;  // the first ones; 0: all,
  std::int64_t most = 0;    // but no more than so many, unless this is 0
  bool keeps_images = false;
};

class Backbone {
 public:
  /// UserError where there is no such network, it takes more than an image, its weights do not fit, or it has no such
  /// features.
  Backbone(const BackboneRequest& request, const FeatureChoice& choice);

  const Recipe& recipe() const { return network_.recipe; }
  const FeatureFacts& facts() const { return facts_; }
  /// Numbers of an image's features.
  std::int64_t numbers() const { return facts_.width * std::max<std::int64_t>(facts_.patches, 1); }
  /// [channels, height, width]
  const ir::Shape& image() const { return image_; }
  /// Where the weights are from, for people.
  const std::string& weights() const { return weights_name_; }

  /// f32 [images, …] of f32 [images, channels, height, width].
  HostTensor features(const HostTensor& images);
  /// UserError where there are fewer images than are asked for.
  FeatureSet collect(const ImagePass& pass);
  /// The classes of the labels of both splits: one more than the largest.
  std::int64_t count_classes() const;

 private:
  ir::Module make_module(std::int64_t batch, FeatureFacts& facts) const;
  void start(std::int64_t batch);
  DataFeed feed(Split split, bool trains) const;

  FeatureChoice choice_;
  std::string engine_name_;
  Network network_;
  std::int64_t epoch_ = 0;  // whose network it is
  FeatureFacts facts_;
  ir::Shape image_;
  std::int64_t fixed_batch_ = 1;  // of a module from a file; 1: any
  std::string weights_name_;
  TensorMap weights_;
  std::int64_t batch_ = 0;  // of the engine
  std::unique_ptr<Engine> engine_;
};

}  // namespace rewire::runtime

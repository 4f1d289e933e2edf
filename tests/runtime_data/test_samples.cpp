// What becomes of one image: its views, its repeats, and what stands for it where it cannot be read.
#include <algorithm>
#include <atomic>
#include <map>

#include "tests/runtime_data/counted_images.h"
#include "tests/runtime_data/image_batches.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::message_of;

const ir::Attributes kCrops = {{"resize", std::string("bilinear")}, {"scale", ir::Doubles{0.2, 1}}};

TransformChain chain(std::int64_t side, bool training, std::string_view view = {}) {
  return {kCrops, {{1, 0, 0}, {1, side, side}, training}, 7, view};
}

ImagePipeline pipeline_of(const ImageSource& images, std::int64_t side, bool training,
                          std::vector<ViewSpec> views = {}) {
  PipelineContext context = images_under(kCrops, {1, side, side}, training);
  context.views = std::move(views);
  return {images, context};
}

LoaderOptions options_of(bool training, std::int64_t batch, int threads = 1) {
  LoaderOptions options;
  options.training = training;
  options.batch = batch;
  options.threads = threads;
  options.seed = 7;
  return options;
}

std::vector<float> floats(const Batch& batch, const std::string& name) {
  const std::span<const float> values = batch.tensors.at(name).as<float>();
  return {values.begin(), values.end()};
}

/// Images whose pixels are all different, so that each crop is another.
struct Gradients final : ImageSource {
  std::string name() const override { return "gradients"; }
  std::int64_t count() const override { return 12; }
  ir::Shape shape() const override { return {1, 0, 0}; }
  std::int64_t label(std::int64_t index) const override { return index; }
  StoredImage decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const override {
    if (needed != nullptr) ++parts;
    buffer.pixels.resize(static_cast<std::size_t>(15 * (13 + index)));
    for (std::size_t i = 0; i < buffer.pixels.size(); ++i) buffer.pixels[i] = static_cast<std::uint8_t>(i);
    return {buffer.pixels, 15, 13 + index};
  }
  mutable std::atomic<int> parts = 0;  // reads that were told which part of the image is needed
};

TEST_CASE(
    "Views are further crops, each with random numbers of its own, the same for any number of threads") {
  const Gradients images;
  const TransformChain first = chain(6, true, "small/0"), second = chain(6, true, "small/1");
  const auto batches = [&](int threads, bool with_views, DataPosition start = {}) {
    std::vector<ViewSpec> views;
    if (with_views) views.push_back({"small", 2, 6, {}});
    const ImagePipeline whole = pipeline_of(images, 8, true, views);
    Loader loader(samples_of(whole), 12, with_rows(options_of(true, 5, threads), whole), start);
    std::vector<Batch> all(3);
    for (Batch& batch : all) loader.next(batch);
    return all;
  };
  const std::vector<Batch> reference = batches(1, true), three = batches(3, true),
                           resumed = batches(2, true, {0, 1, 5});
  CHECK(images.parts == 0);  // views look at other parts than the image does
  const std::vector<Batch> alone = batches(1, false);
  CHECK(images.parts > 0);
  for (std::size_t i = 0; i < 3; ++i) {
    const Batch& batch = reference[i];
    REQUIRE(batch.tensors.at("small").type() == ir::TensorType{ir::DType::f32, {2, 5, 1, 6, 6}});
    CHECK(floats(batch, "image") == floats(alone[i], "image"));  // whether or not there are views
    CHECK(floats(batch, "small") == floats(three[i], "small"));
    if (i > 0) CHECK(floats(batch, "small") == floats(resumed[i - 1], "small"));
    const std::vector<float> views = floats(batch, "small");
    ReadBuffer buffer;
    for (std::size_t row = 0; row < 5; ++row) {
      const std::int64_t image = batch.tensors.at("label").as<std::int64_t>()[row];
      const StoredImage stored = images.decode(image, buffer, nullptr);
      std::vector<float> expected(36), other(36);
      first.apply(stored, expected, batch.epoch, image);
      second.apply(stored, other, batch.epoch, image);
      CHECK(std::equal(expected.begin(), expected.end(), views.begin() + static_cast<long>(36 * row)));
      CHECK(std::equal(other.begin(), other.end(), views.begin() + static_cast<long>(36 * (5 + row))));
      CHECK(expected != other);
    }
  }
}

TEST_CASE("A view is not mixed with others") {
  const ir::Attributes mixed = {{"mixup", 1.0}};
  CHECK(TransformChain(mixed, {{1, 4, 4}, {1, 4, 4}, true}, 7).changes_batches());
  CHECK_FALSE(TransformChain(mixed, {{1, 4, 4}, {1, 4, 4}, true}, 7, "global").changes_batches());
}

TEST_CASE(
    "Repeated augmentation: each image three times in a row, each time another crop, in as many batches") {
  const Gradients images;
  const TransformChain crops = chain(8, true);
  const ImagePipeline pipeline = pipeline_of(images, 8, true);
  LoaderOptions options = with_rows(options_of(true, 4, 2), pipeline);
  options.repeats = 3;
  Loader loader(samples_of(pipeline), 12, options);
  CHECK(loader.batches_per_epoch() == 3);
  std::vector<std::int64_t> labels;
  std::vector<std::vector<float>> seen;
  Batch batch;
  for (int i = 0; i < 3; ++i) {
    loader.next(batch);
    const std::vector<float> floats_of = floats(batch, "image");
    for (std::size_t row = 0; row < 4; ++row) {
      labels.push_back(batch.tensors.at("label").as<std::int64_t>()[row]);
      seen.emplace_back(floats_of.begin() + static_cast<long>(64 * row),
                        floats_of.begin() + static_cast<long>(64 * row + 64));
    }
  }
  const std::vector<std::uint32_t> order = epoch_order(12, 7, 0);
  ReadBuffer buffer;
  std::vector<float> expected(64);
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(labels[i] == order[i / 3]);
    crops.apply(images.decode(labels[i], buffer, nullptr), expected, 0,
                labels[i] + static_cast<std::int64_t>(i % 3) * 12);
    CHECK(seen[i] == expected);
    if (i % 3 != 0) CHECK(seen[i] != seen[i - 1]);
  }
}

TEST_CASE("In training the next image stands for one that cannot be read; each is counted once") {
  const CountedImages images(10, {3, 4, 9});
  const ImagePipeline crops = pipeline_of(images, 4, true);
  UnreadableSamples unreadable;
  SampleOptions samples;
  samples.unreadable = &unreadable;
  samples.replaces = true;
  for (const int threads : {1, 3}) {
    Loader loader(samples_of(crops, samples), 10, with_rows(options_of(true, 10, threads), crops));
    Batch batch;
    for (int epoch = 0; epoch < 3; ++epoch) {
      loader.next(batch);
      const std::vector<std::uint32_t> order = epoch_order(10, 7, epoch);
      for (std::size_t row = 0; row < 10; ++row) {
        const std::map<std::uint32_t, std::int64_t> instead = {{3, 5}, {4, 5}, {9, 0}};
        const auto found = instead.find(order[row]);
        const std::int64_t image = found == instead.end() ? order[row] : found->second;
        CHECK(batch.tensors.at("label").as<std::int64_t>()[row] == image % 3);
        CHECK(batch.tensors.at("weight").as<float>()[row] == 1);
        CHECK(floats(batch, "image")[16 * row] == static_cast<float>(image) / 255);
      }
    }
    CHECK(unreadable.count() == 3);
  }
}

TEST_CASE("In evaluation an image that cannot be read weighs nothing; without leave it is an error") {
  const CountedImages images(7, {2, 6});
  const ImagePipeline middle = pipeline_of(images, 4, false);
  UnreadableSamples unreadable;
  SampleOptions samples;
  samples.unreadable = &unreadable;
  Loader loader(samples_of(middle, samples), 7, with_rows(options_of(false, 8), middle));
  Batch batch;
  loader.next(batch);
  for (std::size_t row = 0; row < 8; ++row) {
    const bool is_there = row < 7 && row != 2 && row != 6;
    CHECK(batch.tensors.at("weight").as<float>()[row] == (is_there ? 1 : 0));
    CHECK(floats(batch, "image")[16 * row] == (is_there ? static_cast<float>(row) / 255 : 0));
  }
  CHECK(unreadable.count() == 2);
  Loader strict(samples_of(middle), 7, with_rows(options_of(false, 8), middle));
  CHECK(message_of<UserError>([&] { strict.next(batch); }) == "counted/2/0.png: damaged");
}

TEST_CASE("A source of which nothing can be read is an error, whatever may be left out") {
  const CountedImages images(4, {0, 1, 2, 3});
  const ImagePipeline crops = pipeline_of(images, 4, true);
  UnreadableSamples unreadable;
  SampleOptions samples;
  samples.unreadable = &unreadable;
  samples.replaces = true;
  Loader loader(samples_of(crops, samples), 4, with_rows(options_of(true, 2), crops));
  Batch batch;
  CHECK(message_of<UserError>([&] { loader.next(batch); }) == "counted: none of its samples can be read");
}

}  // namespace
}  // namespace rewire::runtime

// A source of images and transforms that Rewire has not got, each in the few lines that it takes: a recipe
// selects them by their keys, and what makes batches, trains and evaluates knows neither.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/error.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/data/vision/transform.h"
#include "runtime/network/data_feed.h"
#include "runtime/train/trainer.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kHeight = 3, kWidth = 11;  // of its images, which have one channel

/// Two classes: ramps that rise and ramps that fall from left to right.
class Ramps final : public ImageSource {
 public:
  Ramps(std::int64_t count, std::string folder) : count_(count), folder_(std::move(folder)) {}
  std::string name() const override { return folder_.empty() ? "ramps" : folder_; }
  std::int64_t count() const override { return count_; }
  ir::Shape shape() const override { return {1, kHeight, kWidth}; }
  std::int64_t label(std::int64_t index) const override { return index % 2; }
  StoredImage decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction&) const override {
    buffer.pixels.resize(kHeight * kWidth);
    for (std::int64_t i = 0; i < kHeight * kWidth; ++i) {
      const std::int64_t x = i % kWidth, step = index % 2 == 0 ? x : kWidth - 1 - x;
      buffer.pixels[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(20 * step + index % 7);
    }
    return {buffer.pixels, kHeight, kWidth};
  }

 private:
  std::int64_t count_;
  std::string folder_;
};

const SourceRow kRamps{"ramps",
                       "ramps of grey",
                       {ir::int_parameter("ramp_count", 60, "images of each split").at_least(1),
                        ir::path_parameter("ramp_folder", "", "a name for messages")},
                       [](const ir::Attributes& values, const SourceContext&) -> std::unique_ptr<Source> {
                         return std::make_unique<Ramps>(values.get_int("ramp_count"),
                                                        values.get_string("ramp_folder"));
                       }};

/// Of bytes, in training and evaluation: takes `cut` pixels off each side.
class Cut final : public TransformOf<std::uint8_t, std::uint8_t> {
 public:
  Cut(ir::Shape image, std::int64_t cut) : in_(std::move(image)), cut_(cut) {
    if (2 * cut >= in_[1] || 2 * cut >= in_[2])
      user_error("transforms.cut is {}: images of {} x {} have nothing left", cut, in_[1], in_[2]);
  }
  ir::Shape shape() const override { return {in_[0], in_[1] - 2 * cut_, in_[2] - 2 * cut_}; }
  void apply(std::span<const std::uint8_t> image, std::span<std::uint8_t> out,
             const SampleRandom&) const override {
    auto to = out.begin();
    for (std::int64_t c = 0; c < in_[0]; ++c) {
      for (std::int64_t y = cut_; y < in_[1] - cut_; ++y)
        to = std::copy_n(image.begin() + (c * in_[1] + y) * in_[2] + cut_, in_[2] - 2 * cut_, to);
    }
  }

 private:
  ir::Shape in_;
  std::int64_t cut_;
};

const TransformRow kCut{
    "cut",
    "cuts pixels off each side",
    {ir::int_parameter("cut", 0, "pixels of each side").at_least(0)},
    false,
    [](const ir::Attributes& values, const TransformContext& context) -> std::unique_ptr<Transform> {
      const std::int64_t cut = values.get_int("cut");
      return cut == 0 ? nullptr : std::make_unique<Cut>(context.image, cut);
    }};

/// Of floats, in training alone: adds a number that is uniform in [0, noise) to each.
class Noise final : public TransformOf<float, float> {
 public:
  Noise(ir::Shape image, double noise) : shape_(std::move(image)), noise_(noise) {}
  ir::Shape shape() const override { return shape_; }
  void apply(std::span<const float> image, std::span<float> out, const SampleRandom& random) const override {
    const auto size = static_cast<std::uint64_t>(ir::element_count(shape_));
    for (std::uint64_t i = 0; i < size; ++i)
      out[i] = image[i] + static_cast<float>(noise_ * random.stream.uniform(random.sample * size + i));
  }

 private:
  ir::Shape shape_;
  double noise_;
};

const TransformRow kNoise{
    "noise",
    "adds noise to each pixel",
    {ir::float_parameter("noise", 0, "its height").at_least(0)},
    true,
    [](const ir::Attributes& values, const TransformContext& context) -> std::unique_ptr<Transform> {
      const double noise = values.get_double("noise");
      return noise == 0 ? nullptr : std::make_unique<Noise>(context.image, noise);
    }};

Recipe recipe_of(const std::vector<std::string>& settings = {}) {
  static const bool added = [] {
    add_source(kRamps);
    add_transform(kCut, "random_crop");
    add_transform(kNoise);
    return true;
  }();
  static_cast<void>(added);
  return parse_recipe(R"(
seed = 3
[data]
format = "ramps"
ramp_count = 61
[transforms]
cut = 1
noise = 0.5
mean = [0.5]
[train]
batch = 8
epochs = 4
[eval]
batch = 16
[optimizer]
lr = 0.1
)",
                      "test.toml", settings);
}

/// Two classes, images of 1 x 1 x 9.
NetworkFace face() {
  return network_face(linear_model(1, 9, 2), {"supervised"});
}

TEST_CASE("A foreign source and foreign transforms fill batches, by their own stream of random numbers") {
  const Recipe recipe = recipe_of();
  for (const Split split : {Split::train, Split::test}) {
    const bool training = split == Split::train;
    const DataFeed feed(recipe, split, face());
    CHECK(feed.count() == 61);
    const auto loader = feed.load({training ? 1 : 0, 0});
    const std::vector<std::uint32_t> order = epoch_order(61, 3, 1);
    const ir::PhiloxStream stream{3, 1, ir::stream_hash("data.augment.noise")};
    Batch batch;
    loader->next(batch);
    const std::span<const float> image = batch.tensors.at("image").as<float>();
    REQUIRE(batch.tensors.at("image").type().shape == ir::Shape{training ? 8 : 16, 1, 1, 9});
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint64_t sample = training ? order[i] : i;
      CHECK(batch.tensors.at("label").as<std::int64_t>()[i] == static_cast<std::int64_t>(sample % 2));
      for (std::uint64_t p = 0; p < 9; ++p) {
        const std::uint64_t step = sample % 2 == 0 ? 1 + p : 9 - p, pixel = 20 * step + sample % 7;
        const auto noise = training ? static_cast<float>(0.5 * stream.uniform(sample * 9 + p)) : 0.0F;
        CHECK(image[i * 9 + p] == static_cast<float>(static_cast<double>(pixel) / 255.0 - 0.5) + noise);
      }
    }
  }
}

class Silent final : public TrainObserver {
 public:
  void started(const RunFacts&) override {}
  void compiling(const std::string&) override {}
  void stepped(const TrainView&) override {}
  void logged(const TrainView&) override {}
  void evaluating(std::int64_t, std::int64_t) override {}
  void epoch_done(const EpochReport&) override {}
  void replaying(const std::string&) override {}
};

TEST_CASE("A run on a foreign source is trained by its recipe, which records what it was told") {
  TrainRequest request;
  request.recipe = recipe_of();
  request.engine = engine_names().front();
  request.choices.autotune = false;
  request.network.forward = [](std::int64_t batch) { return linear_model(batch, 9, 2); };
  const test::TemporaryFolder folder;
  Silent silent;
  const TrainResult result = train(request, folder.file("run"), OutFolder::exact, silent);
  REQUIRE(result.evaluation.has_value());
  CHECK(result.evaluation->metrics.at(1).name == "top1");
  CHECK(result.evaluation->metrics.at(1).value > 0.9);
  const Recipe recorded = read_recipe(folder.file("run/recipe.toml"));
  CHECK(recorded.source.name == "ramps");
  CHECK(recorded.source.values.get_int("ramp_count") == 61);
  CHECK(recorded.transforms.get_double("noise") == 0.5);
  CHECK(to_toml(recorded) == to_toml(request.recipe));
}

TEST_CASE("Foreign keys are refused as Rewire's own are") {
  CHECK(test::message_of<UserError>([] { recipe_of({"data.count=3"}); }) ==
        "--set data.count=3: data.count has no effect here, it needs data.format=synthetic: remove it");
  CHECK(test::message_of<UserError>([] { recipe_of({"data.format=ramp"}); }) ==
        fmt::format(
            "--set data.format=ramp: data.format=ramp is unknown: it takes one of {} (did you mean 'ramps'?)",
            fmt::join(ir::row_names(sources()), "|")));
  const auto refusal = [](const std::vector<std::string>& settings) {
    return test::message_of<UserError>([&] { DataFeed(recipe_of(settings), Split::train, face()); });
  };
  CHECK(refusal({"transforms.cut=3"}) == "transforms.cut is 3: images of 3 x 11 have nothing left");
  CHECK(refusal({"transforms.cut=0", "data.ramp_folder=/r"}) ==
        "/r: its images are [1,3,11] (channels, height, width), but the network takes [1,1,9]: set "
        "transforms.resize, or match model.image and model.channels to the data");
  CHECK(refusal({"data.ramp_count=7"}) == "train.batch is 8, but ramps has only 7 training samples");
}

TEST_CASE("A label that the model has no class for is refused at once") {
  const auto one_class = [] { return network_face(linear_model(1, 9, 1), {"supervised"}); };
  CHECK(test::message_of<UserError>([&] { DataFeed(recipe_of(), Split::test, one_class()); }) ==
        "ramps: sample 1 has label 1, of labels from 0 to 1, but the model has 1 class: set model.classes=2");
}

}  // namespace
}  // namespace rewire::runtime

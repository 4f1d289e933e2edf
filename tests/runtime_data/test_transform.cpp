// Crop, flip and normalisation against their definitions pixel by pixel, and the statistics of the draws.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>

#include "ir/error.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/data/vision/transform.h"
#include "tests/runtime_data/same_size.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::message_of;

constexpr std::int64_t kChannels = 2, kHeight = 5, kWidth = 7;
const ir::Shape kShape = {kChannels, kHeight, kWidth};

std::vector<std::uint8_t> example_pixels() {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < kChannels * kHeight * kWidth; ++i)
    pixels.push_back(static_cast<std::uint8_t>(i * 37 % 256));
  return pixels;
}

const std::vector<double> kMean = {0.25, 0.5}, kDeviation = {0.5, 0.125};

ir::Attributes example_values() {
  return {{"mean", ir::Doubles(kMean)}, {"std", ir::Doubles(kDeviation)}};
}

ir::Attributes augmented(std::int64_t padding, const std::string& fill, bool flip) {
  ir::Attributes values = example_values();
  values.set("crop_padding", padding);
  values.set("crop_fill", fill);
  values.set("horizontal_flip", flip);
  return values;
}

std::vector<float> seen(const TransformChain& chain, const std::vector<std::uint8_t>& pixels,
                        std::int64_t epoch = 0, std::int64_t sample = 0) {
  std::vector<float> image(static_cast<std::size_t>(ir::element_count(chain.shape())), std::nanf(""));
  apply(chain, pixels, chain.shape(), image, epoch, sample);
  return image;
}

/// What chance decides for a sample by the documented streams: number k of a sample is 4 sample + k of
/// data.augment, and a number below n is the high word of its bits times n.
struct Drawn {
  std::int64_t dy, dx;
  bool flip;
};
Drawn drawn(std::int64_t padding, bool flip, std::uint64_t seed, std::int64_t epoch, std::int64_t sample) {
  const ir::PhiloxStream stream{seed, static_cast<std::uint32_t>(epoch), ir::stream_hash("data.augment")};
  const auto below = [&](std::uint64_t k, std::int64_t n) {
    return static_cast<std::int64_t>(
        stream.bits(4 * static_cast<std::uint64_t>(sample) + k) * static_cast<std::uint64_t>(n) >> 32);
  };
  return {below(0, 2 * padding + 1) - padding, below(1, 2 * padding + 1) - padding, flip && below(2, 2) == 1};
}

/// out(c, y, x) by the definition: pad, cut out, mirror, normalise.
float expected(const std::vector<std::uint8_t>& pixels, bool reflect, const Drawn& draw, std::int64_t c,
               std::int64_t y, std::int64_t x) {
  std::int64_t row = y + draw.dy, column = (draw.flip ? kWidth - 1 - x : x) + draw.dx;
  double value = 0;
  if (reflect) {
    while (row < 0 || row >= kHeight) row = row < 0 ? -row : 2 * (kHeight - 1) - row;
    while (column < 0 || column >= kWidth) column = column < 0 ? -column : 2 * (kWidth - 1) - column;
  }
  if (row >= 0 && row < kHeight && column >= 0 && column < kWidth) {
    value = pixels[static_cast<std::size_t>((c * kHeight + row) * kWidth + column)];
  }
  const auto channel = static_cast<std::size_t>(c);
  return static_cast<float>((value / 255.0 - kMean[channel]) / kDeviation[channel]);
}

TEST_CASE("Bytes and the table of a chain give the floats of the chain, where a byte alone decides") {
  const std::vector<std::uint8_t> pixels = example_pixels();
  for (const bool training : {true, false}) {
    const TransformChain chain(augmented(2, "zero", true), {kShape, kShape, training}, 3);
    const std::span<const float> table = chain.byte_values();
    REQUIRE(table.size() == 256 * kChannels);
    for (std::int64_t sample = 0; sample < 20; ++sample) {
      const std::vector<float> floats = seen(chain, pixels, 1, sample);
      std::vector<std::uint8_t> bytes(floats.size());
      chain.apply_to_bytes({pixels, kHeight, kWidth}, bytes, 1, sample);
      for (std::size_t i = 0; i < bytes.size(); ++i)
        REQUIRE(table[i / (kHeight * kWidth) * 256 + bytes[i]] == floats[i]);
    }
  }
  ir::Attributes erased = example_values();
  erased.set("erase_prob", 0.1);
  CHECK(TransformChain(erased, {kShape, kShape}, 3).byte_values().empty());
  CHECK_FALSE(TransformChain(erased, {kShape, kShape, false}, 3).byte_values().empty());
  ir::Attributes mixed = example_values();
  mixed.set("mixup", 0.8);
  CHECK(TransformChain(mixed, {kShape, kShape}, 3).byte_values().empty());
  CHECK_FALSE(TransformChain(mixed, {kShape, kShape}, 3, "view/0").byte_values().empty());
}

TEST_CASE("Every crop, fill and flip is what its definition says, at every pixel") {
  const std::vector<std::uint8_t> pixels = example_pixels();
  constexpr std::uint64_t kSeed = std::uint64_t{5} << 32 | 17;
  constexpr std::int64_t kEpoch = 3;
  for (const std::int64_t padding : {0, 1, 4, 9}) {
    for (const bool reflect : {false, true}) {
      for (const bool flip : {false, true}) {
        if (reflect && padding >= kHeight) continue;
        const TransformChain chain(augmented(padding, reflect ? "reflect" : "zero", flip), same_size(kShape),
                                   kSeed);
        std::map<std::tuple<std::int64_t, std::int64_t, bool>, int> draws;
        for (std::int64_t sample = 0; sample < 2500; ++sample) {
          const Drawn draw = drawn(padding, flip, kSeed, kEpoch, sample);
          ++draws[{draw.dy, draw.dx, draw.flip}];
          const std::vector<float> image = seen(chain, pixels, kEpoch, sample);
          std::size_t i = 0;
          bool same = true;
          for (std::int64_t c = 0; c < kChannels; ++c) {
            for (std::int64_t y = 0; y < kHeight; ++y) {
              for (std::int64_t x = 0; x < kWidth; ++x)
                same = same && image[i++] == expected(pixels, reflect, draw, c, y, x);
            }
          }
          CAPTURE(padding, reflect, flip, sample, draw.dy, draw.dx, draw.flip);
          REQUIRE(same);
        }
        const std::int64_t side = 2 * padding + 1;
        if (padding <= 4) CHECK(draws.size() == static_cast<std::size_t>(side * side * (flip ? 2 : 1)));
      }
    }
  }
}

TEST_CASE("A zero fill wider than the image leaves nothing of it, but where the offset is zero") {
  const ir::Attributes values = {{"crop_padding", std::int64_t{9}}};
  const TransformChain chain(values, same_size({1, 1, 1}), 0);
  int whole = 0;
  for (std::int64_t sample = 0; sample < 2000; ++sample) {
    const Drawn draw = drawn(9, false, 0, 0, sample);
    const bool is_whole = draw.dy == 0 && draw.dx == 0;
    CHECK(seen(chain, {255}, 0, sample)[0] == (is_whole ? 1.0F : 0.0F));
    whole += is_whole;
  }
  CHECK(whole > 0);
}

TEST_CASE("One mean and deviation serve all channels") {
  const ir::Attributes one = {{"mean", ir::Doubles{0.3}}, {"std", ir::Doubles{0.2}}},
                       two = {{"mean", ir::Doubles{0.3, 0.3}}, {"std", ir::Doubles{0.2, 0.2}}};
  CHECK(seen(TransformChain(one, same_size(kShape), 0), example_pixels()) ==
        seen(TransformChain(two, same_size(kShape), 0), example_pixels()));
}

/// An image in which each pixel has a value of its own.
constexpr std::int64_t kSide = 16;
std::vector<std::uint8_t> places() {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < kSide * kSide; ++i) pixels.push_back(static_cast<std::uint8_t>(i));
  return pixels;
}

/// The offsets and the flip that an image of places() was seen under.
Drawn found(const std::vector<float>& image) {
  const auto place = [&](std::int64_t x) {
    return std::lround(image[static_cast<std::size_t>(8 * kSide + x)] * 255);
  };
  const bool flip = place(8) > place(9);
  return {place(8) / kSide - 8, place(flip ? 7 : 8) % kSide - 8, flip};
}

TEST_CASE("Draws are uniform over offsets and flips, and independent of each other") {
  const ir::Attributes values = {{"crop_padding", std::int64_t{2}}, {"horizontal_flip", true}};
  const TransformChain chain(values, same_size({1, kSide, kSide}), 11);
  const std::vector<std::uint8_t> pixels = places();
  constexpr int kDraws = 50'000;
  std::map<std::tuple<std::int64_t, std::int64_t, bool>, int> counts;
  for (int i = 0; i < kDraws; ++i) {
    const Drawn draw = found(seen(chain, pixels, i % 5, i / 5));
    ++counts[{draw.dy, draw.dx, draw.flip}];
  }
  REQUIRE(counts.size() == 50);  // 5 x 5 offsets, 2 flips
  double chi_squared = 0;
  for (const auto& [draw, count] : counts)
    chi_squared += std::pow(count - kDraws / 50.0, 2) / (kDraws / 50.0);
  // 49 degrees of freedom: mean 49, deviation 9.9; five deviations either way.
  CHECK(chi_squared > 0);
  CHECK(chi_squared < 49 + 5 * std::sqrt(2 * 49.0));
}

TEST_CASE("A draw is a function of seed, epoch and sample, and each of them matters") {
  const ir::Attributes values = {{"crop_padding", std::int64_t{7}}};
  const auto offsets = [&](std::uint64_t seed, std::int64_t epoch, std::int64_t first) {
    const TransformChain chain(values, same_size({1, kSide, kSide}), seed);
    std::vector<std::int64_t> all;
    for (std::int64_t sample = first; sample < first + 8; ++sample) {
      const Drawn draw = found(seen(chain, places(), epoch, sample));
      all.insert(all.end(), {draw.dy, draw.dx});
    }
    return all;
  };
  const std::vector<std::int64_t> draw = offsets(1, 2, 3);
  CHECK(offsets(1, 2, 3) == draw);
  CHECK(offsets(0, 2, 3) != draw);
  CHECK(offsets(std::uint64_t{1} << 32 | 1, 2, 3) != draw);
  CHECK(offsets(1, 1, 3) != draw);
  CHECK(offsets(1, 2, 4) != draw);
}

TEST_CASE("Nothing is drawn that was not asked for, and nothing in evaluation") {
  const std::vector<std::uint8_t> pixels = example_pixels();
  const TransformChain plain(example_values(), same_size(kShape), 0),
      evaluation(augmented(2, "zero", true), same_size(kShape, false), 0);
  for (std::int64_t sample = 0; sample < 100; ++sample) {
    CHECK(seen(plain, pixels, sample % 3, sample) == seen(plain, pixels));
    CHECK(seen(evaluation, pixels, sample % 3, sample) == seen(plain, pixels));
  }
}

TEST_CASE("A core augments 50,000 images of 28 x 28 a second", "[.benchmark]") {
  const ir::Attributes values = {{"crop_padding", std::int64_t{4}}, {"horizontal_flip", true}};
  const TransformChain chain(values, same_size({1, 28, 28}), 0);
  const std::vector<std::uint8_t> pixels(28 * 28, 100);
  std::vector<float> image(pixels.size());
  constexpr std::int64_t kCount = 200'000;
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < kCount; ++i) apply(chain, pixels, {1, 28, 28}, image, 0, i);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double rate = static_cast<double>(kCount) / seconds.count();
  WARN(static_cast<int>(rate) << " images/s");
  CHECK(rate >= 50'000);
}

TEST_CASE("Options out of range are refused by name") {
  const auto message = [](const char* key, ir::Attribute value, const char* fill = "zero") {
    ir::Attributes values = {{"crop_fill", std::string(fill)}};
    values.set(key, std::move(value));
    return message_of<UserError>([&] { TransformChain(values, same_size({3, 28, 32}), 0); });
  };
  CHECK(message("mean", ir::Doubles{0, 0}) ==
        "transforms.mean has 2 values; the images have 3 channels: give 1 or 3");
  CHECK(message("std", ir::Doubles{}) ==
        "transforms.std has 0 values; the images have 3 channels: give 1 or 3");
  CHECK(message("std", ir::Doubles{1, 0, 1}) ==
        "transforms.std=0 is out of range: it takes a list of floats > 0");
  CHECK(message("mean", ir::Doubles{std::numeric_limits<double>::infinity()}) ==
        "transforms.mean=inf is not a finite float: it takes a list of floats");
  CHECK(message("crop_padding", std::int64_t{-1}) ==
        "transforms.crop_padding=-1 is out of range: it takes an int 0 to 16384");
  CHECK(message("crop_padding", std::int64_t{28}, "reflect") ==
        "transforms.crop_padding 28 cannot reflect images of 28 x 32: it must be below both");
}

struct Images {
  std::vector<std::vector<std::uint8_t>> pixels;
  std::vector<std::int64_t> labels;
};

Images read_all(const ImageSource& source) {
  Images all;
  for (std::int64_t i = 0; i < source.count(); ++i) {
    ReadBuffer buffer;
    const auto pixels = source.decode(i, buffer, nullptr).pixels;
    all.pixels.emplace_back(pixels.begin(), pixels.end());
    all.labels.push_back(source.label(i));
  }
  return all;
}

std::unique_ptr<ImageSource> synthetic(std::int64_t count, const ImageContext& context) {
  ir::Selection selection{"synthetic"};
  return make_image_source(selection.set("count", count), context);
}

TEST_CASE("The synthetic set is balanced, reproducible, and its splits share no image") {
  ImageContext context{Split::train, {3, 5, 9}, 10};
  const auto source = synthetic(30, context);
  CHECK(source->shape() == ir::Shape{3, 5, 9});
  CHECK(source->count() == 30);
  const Images train = read_all(*source);
  CHECK(train.pixels == read_all(*synthetic(30, context)).pixels);
  for (std::int64_t i = 0; i < 30; ++i) CHECK(train.labels[static_cast<std::size_t>(i)] == i % 10);
  context.split = Split::test;
  const Images test = read_all(*synthetic(30, context));
  for (std::size_t i = 0; i < 30; ++i) CHECK(test.pixels[i] != train.pixels[i]);
  context.split = Split::train;
  context.seed = 1;
  CHECK(read_all(*synthetic(30, context)).pixels != train.pixels);
  context.image[1] = 0;
  CHECK(message_of<UserError>([&] { synthetic(30, context); }) ==
        "synthetic data: height is 0; it must be 1 or more");
}

TEST_CASE("The synthetic classes can be told apart: the nearest class mean of one split labels the other") {
  const Images train = read_all(*synthetic(1024, {Split::train, {1, 28, 28}, 10}));
  const Images test = read_all(*synthetic(100, {Split::test, {1, 28, 28}, 10}));
  const std::size_t size = train.pixels[0].size();
  std::vector<std::vector<double>> means(10, std::vector<double>(size));
  std::vector<double> counts(10);
  for (std::size_t i = 0; i < train.labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(train.labels[i]);
    for (std::size_t p = 0; p < size; ++p) means[label][p] += train.pixels[i][p];
    ++counts[label];
  }
  int right = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    std::size_t best = 0;
    double best_distance = std::numeric_limits<double>::infinity();
    for (std::size_t label = 0; label < 10; ++label) {
      double distance = 0;
      for (std::size_t p = 0; p < size; ++p) {
        distance += std::pow(test.pixels[i][p] - means[label][p] / counts[label], 2);
      }
      if (distance < best_distance) {
        best = label;
        best_distance = distance;
      }
    }
    if (best == static_cast<std::size_t>(test.labels[i])) ++right;
  }
  CHECK(right == 100);
}

}  // namespace
}  // namespace rewire::runtime

// Crop, flip and normalisation against their definitions pixel by pixel, and the statistics of the draws.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>

#include "ir/error.h"
#include "runtime/data/dataset.h"
#include "runtime/data/transform.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::message_of;

constexpr std::int64_t kChannels = 2, kHeight = 5, kWidth = 7;

std::vector<std::uint8_t> example_pixels() {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < kChannels * kHeight * kWidth; ++i)
    pixels.push_back(static_cast<std::uint8_t>(i * 37 % 256));
  return pixels;
}

TransformOptions example_options() {
  TransformOptions options;
  options.mean = {0.25, 0.5};
  options.deviation = {0.5, 0.125};
  return options;
}

/// out(c, y, x) by the definition: pad, cut out, mirror, normalise.
double expected(const std::vector<std::uint8_t>& pixels, const TransformOptions& options,
                const Augmentation& draw, std::int64_t c, std::int64_t y, std::int64_t x) {
  std::int64_t row = y + draw.dy, column = (draw.flip ? kWidth - 1 - x : x) + draw.dx;
  double value = 0;
  if (options.crop_fill == CropFill::reflect) {
    while (row < 0 || row >= kHeight) row = row < 0 ? -row : 2 * (kHeight - 1) - row;
    while (column < 0 || column >= kWidth) column = column < 0 ? -column : 2 * (kWidth - 1) - column;
  }
  if (row >= 0 && row < kHeight && column >= 0 && column < kWidth) {
    value = pixels[static_cast<std::size_t>((c * kHeight + row) * kWidth + column)];
  }
  const auto channel = static_cast<std::size_t>(c);
  return (value / 255.0 - options.mean[channel]) / options.deviation[channel];
}

TEST_CASE("Every crop, fill and flip is what its definition says, at every pixel") {
  const std::vector<std::uint8_t> pixels = example_pixels();
  for (const CropFill fill : {CropFill::zero, CropFill::reflect}) {
    TransformOptions options = example_options();
    options.crop_padding = 4;
    options.crop_fill = fill;
    const Transform transform(options, kChannels, kHeight, kWidth);
    for (std::int64_t dy = -4; dy <= 4; ++dy) {
      for (std::int64_t dx = -4; dx <= 4; ++dx) {
        for (const bool flip : {false, true}) {
          const Augmentation draw{dy, dx, flip};
          std::vector<float> image(pixels.size(), std::nanf(""));
          transform.apply(pixels, image, draw);
          std::size_t i = 0;
          for (std::int64_t c = 0; c < kChannels; ++c) {
            for (std::int64_t y = 0; y < kHeight; ++y) {
              for (std::int64_t x = 0; x < kWidth; ++x) {
                CAPTURE(dy, dx, flip, c, y, x);
                REQUIRE(image[i++] == static_cast<float>(expected(pixels, options, draw, c, y, x)));
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("A zero fill wider than the image leaves nothing of it") {
  TransformOptions options;
  options.crop_padding = 9;
  const Transform transform(options, 1, 1, 1);
  const std::vector<std::uint8_t> pixels{255};
  std::vector<float> image{std::nanf("")};
  transform.apply(pixels, image, {9, 0, false});
  CHECK(image[0] == 0);
  transform.apply(pixels, image, {});
  CHECK(image[0] == 1);
}

TEST_CASE("One mean and deviation serve all channels") {
  TransformOptions one;
  one.mean.assign(1, 0.3);  // GCC 14 misreads = {0.3}
  one.deviation.assign(1, 0.2);
  TransformOptions two;
  two.mean = {0.3, 0.3};
  two.deviation = {0.2, 0.2};
  const std::vector<std::uint8_t> pixels = example_pixels();
  std::vector<float> a(pixels.size()), b(pixels.size());
  Transform(one, kChannels, kHeight, kWidth).apply(pixels, a);
  Transform(two, kChannels, kHeight, kWidth).apply(pixels, b);
  CHECK(a == b);
}

TEST_CASE("Draws are uniform over offsets and flips, and independent of each other") {
  TransformOptions options;
  options.crop_padding = 2;
  options.horizontal_flip = true;
  const Transform transform(options, 1, 28, 28);
  const std::uint64_t seed = 11;
  constexpr int kDraws = 50'000;
  std::map<std::tuple<std::int64_t, std::int64_t, bool>, int> counts;
  for (int i = 0; i < kDraws; ++i) {
    const Augmentation draw = transform.draw(seed, i % 5, i / 5);
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
  TransformOptions options;
  options.crop_padding = 1000;
  options.crop_fill = CropFill::zero;
  const Transform transform(options, 1, 28, 28);
  const Augmentation draw = transform.draw(1, 2, 3);
  const auto same = [&](const Augmentation& other) { return other.dy == draw.dy && other.dx == draw.dx; };
  CHECK(same(transform.draw(1, 2, 3)));
  CHECK_FALSE(same(transform.draw(0, 2, 3)));
  CHECK_FALSE(same(transform.draw(std::uint64_t{1} << 32 | 1, 2, 3)));
  CHECK_FALSE(same(transform.draw(1, 1, 3)));
  CHECK_FALSE(same(transform.draw(1, 2, 4)));
}

TEST_CASE("Nothing is drawn that was not asked for") {
  const Transform transform(example_options(), kChannels, kHeight, kWidth);
  for (std::int64_t sample = 0; sample < 100; ++sample) {
    const Augmentation draw = transform.draw(0, 0, sample);
    CHECK((draw.dy == 0 && draw.dx == 0 && !draw.flip));
  }
}

TEST_CASE("A core augments 50,000 images of 28 x 28 a second", "[.benchmark]") {
  TransformOptions options;
  options.crop_padding = 4;
  options.horizontal_flip = true;
  const Transform transform(options, 1, 28, 28);
  const Dataset dataset = make_synthetic_dataset({}, Split::train);
  std::vector<float> image(dataset.image_size());
  constexpr int kPasses = 200;
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t pass = 0; pass < kPasses; ++pass) {
    for (std::int64_t i = 0; i < dataset.count; ++i) {
      transform.apply(dataset.image(i), image, transform.draw(0, pass, i));
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double rate = static_cast<double>(kPasses * dataset.count) / seconds.count();
  WARN(static_cast<int>(rate) << " images/s");
  CHECK(rate >= 50'000);
}

TEST_CASE("Options out of range are refused by name") {
  const auto message = [](auto change) {
    TransformOptions options;
    change(options);
    return message_of<UserError>([&] { Transform(options, 3, 28, 32); });
  };
  CHECK(message([](auto& o) { o.mean = {0, 0}; }) ==
        "transforms.mean has 2 values; the images have 3 channels: give 1 or 3");
  CHECK(message([](auto& o) { o.deviation = {}; }) ==
        "transforms.std has 0 values; the images have 3 channels: give 1 or 3");
  CHECK(message([](auto& o) { o.deviation = {1, 0, 1}; }) ==
        "transforms.std has the value 0; it must be above 0");
  CHECK(message([](auto& o) { o.mean = {std::numeric_limits<double>::infinity()}; }) ==
        "transforms.mean has the value inf");
  CHECK(message([](auto& o) { o.crop_padding = -1; }) ==
        "transforms.crop_padding is -1; it must be 0 or more");
  CHECK(message([](auto& o) {
          o.crop_padding = 28;
          o.crop_fill = CropFill::reflect;
        }) == "transforms.crop_padding 28 cannot reflect images of 28 x 32: it must be below both");
}

TEST_CASE("The synthetic set is balanced, reproducible, and its splits share no image") {
  SyntheticOptions options;
  options.count = 30;
  options.channels = 3;
  options.height = 5;
  options.width = 9;
  const Dataset train = make_synthetic_dataset(options, Split::train);
  CHECK(train.images == make_synthetic_dataset(options, Split::train).images);
  CHECK(train.images.size() == 30 * 3 * 5 * 9);
  for (std::int64_t i = 0; i < 30; ++i) CHECK(train.labels[static_cast<std::size_t>(i)] == i % 10);
  check_labels(train, 10);
  const Dataset test = make_synthetic_dataset(options, Split::test);
  for (std::int64_t i = 0; i < 30; ++i) CHECK_FALSE(std::ranges::equal(train.image(i), test.image(i)));
  options.seed = 1;
  CHECK(make_synthetic_dataset(options, Split::train).images != train.images);
  options.height = 0;
  CHECK(message_of<UserError>([&] { make_synthetic_dataset(options, Split::train); }) ==
        "synthetic data: height is 0; it must be 1 or more");
}

TEST_CASE("The synthetic classes can be told apart: the nearest class mean of one split labels the other") {
  const SyntheticOptions options;
  const Dataset train = make_synthetic_dataset(options, Split::train);
  const Dataset test = make_synthetic_dataset(options, Split::test);
  const std::size_t size = train.image_size();
  std::vector<std::vector<double>> means(10, std::vector<double>(size));
  std::vector<double> counts(10);
  for (std::int64_t i = 0; i < train.count; ++i) {
    const auto label = static_cast<std::size_t>(train.labels[static_cast<std::size_t>(i)]);
    for (std::size_t p = 0; p < size; ++p) means[label][p] += train.image(i)[p];
    ++counts[label];
  }
  int right = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    std::size_t best = 0;
    double best_distance = std::numeric_limits<double>::infinity();
    for (std::size_t label = 0; label < 10; ++label) {
      double distance = 0;
      for (std::size_t p = 0; p < size; ++p) {
        distance += std::pow(test.image(i)[p] - means[label][p] / counts[label], 2);
      }
      if (distance < best_distance) {
        best = label;
        best_distance = distance;
      }
    }
    if (best == static_cast<std::size_t>(test.labels[static_cast<std::size_t>(i)])) ++right;
  }
  CHECK(right == 100);
}

}  // namespace
}  // namespace rewire::runtime

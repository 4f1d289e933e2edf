// Images at other sizes against Pillow's, and the boxes that are drawn.
#include <cmath>
#include <cstdlib>
#include <map>

#include "ir/error.h"
#include "runtime/data/vision/resample.h"
#include "runtime/data/vision/transform.h"
#include "runtime/io/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::message_of;

TEST_CASE("Images at another size are Pillow's, byte for byte") {
  const TensorMap goldens = read_safetensors(std::string(REWIRE_GOLDENS) + "/images.safetensors").tensors;
  int cases = 0;
  for (const auto& [name, tensor] : goldens) {
    if (!name.starts_with("resize.") || !name.ends_with(".frame")) continue;
    const std::string stem = name.substr(0, name.size() - 6);
    const HostTensor& image = goldens.at(stem + ".image");
    const auto f = tensor.as<std::int64_t>();
    const Frame frame{{f[0], f[1], f[2], f[3]}, f[4], f[5], {f[6], f[7], f[8], f[9]}};
    for (const Filter filter : {Filter::bilinear, Filter::bicubic}) {
      CAPTURE(stem, filter == Filter::bicubic);
      const HostTensor& expected = goldens.at(stem + (filter == Filter::bicubic ? ".bicubic" : ".bilinear"));
      std::vector<std::uint8_t> out(static_cast<std::size_t>(expected.type().elements()), 99);
      resample(image.as<std::uint8_t>(), image.type().shape[1], image.type().shape[2], frame, filter, out);
      const auto wanted = expected.as<std::uint8_t>();
      CHECK(std::ranges::equal(out, wanted));
      ++cases;
    }
  }
  CHECK(cases == 20);
}

constexpr std::int64_t kTall = 60, kWide = 90;

/// Each pixel says where it stands: rows in one channel, columns in another.
std::vector<std::uint8_t> ramps() {
  std::vector<std::uint8_t> pixels;
  for (std::int64_t y = 0; y < kTall; ++y)
    for (std::int64_t x = 0; x < kWide; ++x) pixels.push_back(static_cast<std::uint8_t>(4 * y));
  for (std::int64_t y = 0; y < kTall; ++y)
    for (std::int64_t x = 0; x < kWide; ++x) pixels.push_back(static_cast<std::uint8_t>(2 * x));
  return pixels;
}

ir::Attributes values(ir::Doubles scale, ir::Doubles ratio = {0.75, 4.0 / 3}) {
  return {{"resize", std::string("bilinear")}, {"scale", std::move(scale)}, {"ratio", std::move(ratio)}};
}

TEST_CASE("Training boxes have the areas, ratios and places that they are drawn from") {
  const TransformChain chain(values({0.2, 0.5}), {{2, 0, 0}, {2, 8, 8}, true}, 5);
  const std::vector<std::uint8_t> pixels = ramps();
  std::vector<float> out(2 * 8 * 8);
  constexpr int kDraws = 20'000, kBins = 10;
  std::vector<int> areas(kBins), ratios(kBins);
  double sum_y = 0, sum_x = 0;
  for (int i = 0; i < kDraws; ++i) {
    chain.apply({pixels, kTall, kWide}, out, i % 3, i);
    // The middles of the first and of the last pixel are 7/8 of the box apart.
    const auto row = [&](int y) { return 255 / 4.0 * out[static_cast<std::size_t>(y * 8 + 3)]; };
    const auto column = [&](int x) { return 255 / 2.0 * out[static_cast<std::size_t>(64 + 8 * 3 + x)]; };
    const double height = (row(6) - row(1)) / 5 * 8, width = (column(6) - column(1)) / 5 * 8;
    const double area = height * width / (kTall * kWide), ratio = width / height;
    const auto bin = [](double share) {
      return static_cast<std::size_t>(std::clamp(share * kBins, 0.0, kBins - 1.0));
    };
    ++areas[bin((area - 0.2) / 0.3)];
    ++ratios[bin((std::log(ratio) - std::log(0.75)) / (2 * std::log(4.0 / 3)))];
    sum_y += (row(3) + row(4)) / 2;
    sum_x += (column(3) + column(4)) / 2;
  }
  // Whole pixels blur the bins' edges; a bin's share is a tenth.
  for (int bin = 0; bin < kBins; ++bin) {
    CAPTURE(bin);
    CHECK(areas[static_cast<std::size_t>(bin)] / double{kDraws} == Approx(0.1).margin(0.02));
    CHECK(ratios[static_cast<std::size_t>(bin)] / double{kDraws} == Approx(0.1).margin(0.02));
  }
  CHECK(sum_y / kDraws == Approx((kTall - 1) / 2.0).margin(0.5));
  CHECK(sum_x / kDraws == Approx((kWide - 1) / 2.0).margin(0.5));
}

TEST_CASE("Where no box fits, the middle of the image is taken") {
  // A strip: boxes of all of its area with a ratio near one do not fit.
  std::vector<std::uint8_t> strip;
  for (int x = 0; x < 200; ++x) strip.push_back(static_cast<std::uint8_t>(x));
  const TransformChain chain(values({1, 1}), {{1, 0, 0}, {1, 1, 1}, true}, 0);
  std::vector<float> out(1);
  chain.apply({strip, 1, 200}, out, 0, 0);
  CHECK(out[0] * 255 == Approx(99).margin(1));
}

TEST_CASE("A strip that has no box of the ratio still gives a pixel") {
  const std::vector<std::uint8_t> strip(1000, 200);
  std::vector<float> out(4);
  TransformChain(values({1, 1}, {3, 4}), {{1, 0, 0}, {1, 2, 2}, true}, 0).apply({strip, 1000, 1}, out, 0, 0);
  CHECK(out[0] * 255 == Approx(200));
  TransformChain(values({1, 1}, {0.1, 0.2}), {{1, 0, 0}, {1, 2, 2}, true}, 0)
      .apply({strip, 1, 1000}, out, 0, 0);
  CHECK(out[3] * 255 == Approx(200));
}

TEST_CASE("Evaluation takes the middle of the scaled image, whatever the epoch") {
  ir::Attributes given = values({0.1, 0.2});
  given.set("crop_pct", 0.5);
  const TransformChain chain(given, {{2, 0, 0}, {2, 30, 30}, false}, 0);
  const std::vector<std::uint8_t> pixels = ramps();
  std::vector<float> out(2 * 30 * 30), again(out.size());
  chain.apply({pixels, kTall, kWide}, out, 0, 3);
  chain.apply({pixels, kTall, kWide}, again, 5, 4);
  CHECK(out == again);
  // 60 x 90 is 60 x 90 at the scale of 30 / 0.5: rows 15 to 44, columns 30 to 59.
  CHECK(out[0] * 255 == Approx(4 * 15));
  CHECK(out[900] * 255 == Approx(2 * 30));
  CHECK(out[899] * 255 == Approx(4 * 44));
  CHECK(out[1799] * 255 == Approx(2 * 59));
}

TEST_CASE("Ranges take two numbers, the smaller one first") {
  const auto message = [](const ir::Attributes& given) {
    return message_of<UserError>([&] { TransformChain(given, {{3, 0, 0}, {3, 8, 8}, true}, 0); });
  };
  CHECK(message({}) == "(nothing was thrown)");  // images of the network's size are taken
  CHECK(message({{"scale", ir::Doubles{0.1, 1}}}) ==
        "transforms.scale needs random resized crops: set transforms.resize to a filter");
  CHECK(message(values({0.5})) == "transforms.scale takes two numbers, the smaller one first");
  CHECK(message(values({0.5, 0.4})) == "transforms.scale takes two numbers, the smaller one first");
  CHECK(message(values({}, {})) == "transforms.ratio takes two numbers, the smaller one first");
  CHECK(message(values({0.5, 1.5})) ==
        "transforms.scale=1.5 is out of range: it takes a list of floats > 0 and <= 1");
}

}  // namespace
}  // namespace rewire::runtime

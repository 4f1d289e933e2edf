// Colours, blur and solarization against Pillow's, the draws against the documented streams, and their statistics.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "ir/error.h"
#include "runtime/data/vision/colour_ops.h"
#include "runtime/data/vision/transform.h"
#include "runtime/io/safetensors.h"
#include "tests/runtime_data/same_size.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::message_of;
using Bytes = std::vector<std::uint8_t>;

const std::map<std::string, std::function<void(Picture, double)>> kOps = {
    {"brightness", [](Picture p, double x) { adjust_brightness(p, static_cast<float>(x)); }},
    {"contrast", [](Picture p, double x) { adjust_contrast(p, static_cast<float>(x)); }},
    {"saturation", [](Picture p, double x) { adjust_saturation(p, static_cast<float>(x)); }},
    {"hue", [](Picture p, double x) { adjust_hue(p, static_cast<float>(x)); }},
    {"grey", [](Picture p, double) { to_grey(p); }},
    {"solarize", [](Picture p, double x) { solarize(p, static_cast<int>(x)); }},
    {"blur", [](Picture p, double x) { gaussian_blur(p, x); }},
};

Picture picture(Bytes& pixels, const ir::Shape& shape) {
  return {pixels, shape[0], shape[1], shape[2]};
}

TEST_CASE("Colours are Pillow's, byte for byte, and so is the blur but for one level") {
  const TensorMap goldens = read_safetensors(std::string(REWIRE_GOLDENS) + "/images.safetensors").tensors;
  std::map<std::string, int> worst, cases;
  for (const auto& [op, work] : kOps) {
    const HostTensor& stored = goldens.at("factor." + op);
    const auto factors = stored.as<double>();
    for (std::size_t number = 0; number < factors.size(); ++number) {
      for (const auto& [name, image] : goldens) {
        if (!name.starts_with("colour.")) continue;
        CAPTURE(op, factors[number], name);
        const auto stored_pixels = image.as<std::uint8_t>();
        Bytes pixels(stored_pixels.begin(), stored_pixels.end());
        work(picture(pixels, image.type().shape), factors[number]);
        const auto wanted = goldens.at("answer." + op + "." + std::to_string(number) + "." + name.substr(7))
                                .as<std::uint8_t>();
        REQUIRE(wanted.size() == pixels.size());
        for (std::size_t i = 0; i < pixels.size(); ++i)
          worst[op] = std::max(worst[op], std::abs(pixels[i] - wanted[i]));
        CHECK(worst[op] <= (op == "blur" ? 1 : 0));
        ++cases[op];
      }
    }
  }
  CHECK(cases == std::map<std::string, int>{{"brightness", 42},
                                            {"contrast", 42},
                                            {"saturation", 42},
                                            {"hue", 49},
                                            {"grey", 7},
                                            {"solarize", 35},
                                            {"blur", 56}});
}

TEST_CASE("Images of two channels keep their colours; their contrast is about the mean of all pixels") {
  const Bytes before = {10, 20, 200, 150};
  const auto after = [&](const char* op, double x) {
    Bytes pixels = before;
    kOps.at(op)(picture(pixels, {2, 1, 2}), x);
    return pixels;
  };
  for (const char* op : {"saturation", "hue", "grey"}) CHECK(after(op, 0.25) == before);
  CHECK(after("contrast", 0) == Bytes(4, 95));
  CHECK(after("contrast", 0.5) == Bytes{52, 57, 147, 122});
}

constexpr std::uint64_t kSeed = std::uint64_t{7} << 32 | 23;
constexpr std::int64_t kEpoch = 2;
const ir::Shape kOddShape = {3, 5, 4};

Bytes example(const ir::Shape& shape) {
  Bytes pixels;
  for (std::int64_t i = 0; i < ir::element_count(shape); ++i)
    pixels.push_back(static_cast<std::uint8_t>((i * 89 + 31) % 256));
  return pixels;
}

/// What comes before normalize, which by default divides by 255.
Bytes seen_bytes(const TransformChain& chain, const Bytes& pixels, std::int64_t sample,
                 std::int64_t epoch = kEpoch) {
  std::vector<float> floats(pixels.size());
  apply(chain, pixels, chain.shape(), floats, epoch, sample);
  Bytes bytes;
  for (const float value : floats) bytes.push_back(static_cast<std::uint8_t>(std::lround(value * 255)));
  return bytes;
}

/// Number `index` of a transform's stream.
ir::PhiloxStream stream(const std::string& name) {
  return {kSeed, static_cast<std::uint32_t>(kEpoch), ir::stream_hash("data.augment." + name)};
}

/// How far counts are from equal ones, in deviations of a chi-squared variable.
double unevenness(const std::vector<int>& counts) {
  double total = 0, chi_squared = 0;
  for (const int count : counts) total += count;
  const double mean = total / static_cast<double>(counts.size());
  for (const int count : counts) chi_squared += (count - mean) * (count - mean) / mean;
  const auto degrees = static_cast<double>(counts.size() - 1);
  return (chi_squared - degrees) / std::sqrt(2 * degrees);
}

void count(std::vector<int>& bins, double share) {
  REQUIRE(share >= 0);
  REQUIRE(share < 1);
  ++bins[static_cast<std::size_t>(share * static_cast<double>(bins.size()))];
}

/// Whether `hits` of `draws` go with a probability: five deviations either way.
void check_share(int hits, int draws, double probability) {
  CHECK(std::abs(hits - draws * probability) < 5 * std::sqrt(draws * probability * (1 - probability)));
}

TEST_CASE("Jitter has the factors and the order of its stream, which are even and independent") {
  constexpr int kDraws = 24'000;
  constexpr double kProbability = 0.75;
  CAPTURE(kSeed, kDraws);
  const std::array<double, 4> strengths = {2, 0.4, 0.9, 0.5};
  const ir::Attributes values = {{"color_jitter", ir::Doubles(strengths.begin(), strengths.end())},
                                 {"color_jitter_prob", kProbability}};
  const TransformChain chain(values, same_size(kOddShape), kSeed);
  const Bytes pixels = example(kOddShape);
  const ir::PhiloxStream numbers = stream("color_jitter");
  std::map<std::array<int, 4>, int> orders;
  std::vector<std::vector<int>> factors(4, std::vector<int>(10));
  std::vector<int> pairs(16);  // brightness and hue, of order's first
  int jittered = 0, wrong = 0;
  for (int sample = 0; sample < kDraws; ++sample) {
    const auto first = 8 * static_cast<std::uint64_t>(sample);
    Bytes wanted = pixels;
    if (numbers.uniform(first) < kProbability) {
      ++jittered;
      std::array<int, 4> order = {0, 1, 2, 3};
      for (std::uint64_t draw = 1; draw <= 3; ++draw) {
        const std::uint64_t places = 5 - draw;
        std::swap(order[places - 1], order[numbers.bits(first + draw) * places >> 32]);
      }
      ++orders[order];
      for (const int op : order) {
        const auto k = static_cast<std::size_t>(op);
        const double share = numbers.uniform(first + 4 + k), x = strengths[k];
        count(factors[k], share);
        const double low = op == 3 ? -x : std::max(0.0, 1 - x), high = op == 3 ? x : 1 + x;
        const char* names[] = {"brightness", "contrast", "saturation", "hue"};
        kOps.at(names[k])(picture(wanted, kOddShape), low + (high - low) * share);
      }
      ++pairs[static_cast<std::size_t>(numbers.uniform(first + 4) * 4) * 4 +
              static_cast<std::size_t>(order[0])];
    }
    wrong += seen_bytes(chain, pixels, sample) != wanted;
  }
  CHECK(wrong == 0);
  check_share(jittered, kDraws, kProbability);
  REQUIRE(orders.size() == 24);
  std::vector<int> of_orders;
  for (const auto& [order, times] : orders) of_orders.push_back(times);
  INFO("orders " << unevenness(of_orders) << ", factors " << unevenness(factors[0]) << " "
                 << unevenness(factors[1]) << " " << unevenness(factors[2]) << " " << unevenness(factors[3])
                 << ", pairs " << unevenness(pairs));
  CHECK(std::abs(unevenness(of_orders)) < 5);
  for (const std::vector<int>& bins : factors) CHECK(std::abs(unevenness(bins)) < 5);
  CHECK(std::abs(unevenness(pairs)) < 5);
}

TEST_CASE("The factors that images show are even over their range") {
  constexpr int kDraws = 20'000;
  CAPTURE(kSeed, kDraws);
  // 100 f, cut off: each of 50 to 149 alike.
  const TransformChain half({{"color_jitter", ir::Doubles{0.5, 0, 0, 0}}}, same_size({1, 1, 1}), kSeed);
  // Below 0 no factor goes: 50 f for f in [0, 3).
  const TransformChain twice({{"color_jitter", ir::Doubles{2, 0, 0, 0}}}, same_size({1, 1, 1}), kSeed);
  std::vector<int> of_half(20), of_twice(15);
  for (int sample = 0; sample < kDraws; ++sample) {
    count(of_half, (seen_bytes(half, {100}, sample)[0] - 50 + 0.5) / 100);
    count(of_twice, (seen_bytes(twice, {50}, sample)[0] + 0.5) / 150);
  }
  INFO(unevenness(of_half) << ", " << unevenness(of_twice));
  CHECK(std::abs(unevenness(of_half)) < 5);
  CHECK(std::abs(unevenness(of_twice)) < 5);
}

TEST_CASE("Grey, blur and solarization come as often as they are asked for, and as their streams say") {
  constexpr int kDraws = 10'000;
  CAPTURE(kSeed, kDraws);
  const Bytes pixels = example(kOddShape);
  for (const double probability : {0.2, 0.5, 1.0}) {
    CAPTURE(probability);
    const TransformChain grey({{"grayscale_prob", probability}}, same_size(kOddShape), kSeed),
        blur({{"blur_prob", probability}, {"blur_sigma", ir::Doubles{0.4, 3}}}, same_size(kOddShape), kSeed),
        solarized({{"solarize_prob", probability}, {"solarize_threshold", std::int64_t{90}}},
                  same_size(kOddShape), kSeed);
    std::array<int, 3> hits{};
    int wrong = 0;
    std::vector<int> sigmas(10);
    for (int sample = 0; sample < kDraws; ++sample) {
      const auto n = static_cast<std::uint64_t>(sample);
      const auto expect = [&](const TransformChain& chain, bool is_on, const char* op, double x) {
        Bytes wanted = pixels;
        if (is_on) kOps.at(op)(picture(wanted, kOddShape), x);
        wrong += seen_bytes(chain, pixels, sample) != wanted;
        return is_on ? 1 : 0;
      };
      hits[0] += expect(grey, stream("grayscale").uniform(n) < probability, "grey", 0);
      const double share = stream("gaussian_blur").uniform(2 * n + 1);
      count(sigmas, share);
      hits[1] +=
          expect(blur, stream("gaussian_blur").uniform(2 * n) < probability, "blur", 0.4 + 2.6 * share);
      hits[2] += expect(solarized, stream("solarize").uniform(n) < probability, "solarize", 90);
    }
    CHECK(wrong == 0);
    INFO("sigma " << unevenness(sigmas) << ", hits " << hits[0] << " " << hits[1] << " " << hits[2]);
    CHECK(std::abs(unevenness(sigmas)) < 5);
    for (const int times : hits) {
      if (probability == 1) {
        CHECK(times == kDraws);
      } else {
        check_share(times, kDraws, probability);
      }
    }
  }
}

ir::Attributes all_on() {
  return {{"color_jitter", ir::Doubles{0.4, 0.4, 0.2, 0.1}},
          {"grayscale_prob", 0.5},
          {"blur_prob", 0.5},
          {"solarize_prob", 0.5}};
}

TEST_CASE("They are applied behind the flip and before normalize, one behind the other") {
  auto place = transforms().begin();
  for (const char* name :
       {"horizontal_flip", "color_jitter", "grayscale", "gaussian_blur", "solarize", "normalize"}) {
    CAPTURE(name);
    place =
        std::find_if(place, transforms().end(), [&](const TransformRow* row) { return row->name == name; });
    REQUIRE(place != transforms().end());
  }
  // Each alone, in that order, makes what the chain makes.
  const ir::Attributes values = all_on();
  const auto alone = [&](std::initializer_list<const char*> keys) {
    ir::Attributes some;
    for (const char* key : keys) some.set(key, *values.find(key));
    return TransformChain(some, same_size(kOddShape), kSeed);
  };
  const TransformChain together(values, same_size(kOddShape), kSeed);
  const TransformChain links[] = {alone({"color_jitter"}), alone({"grayscale_prob"}), alone({"blur_prob"}),
                                  alone({"solarize_prob"})};
  for (std::int64_t sample = 0; sample < 200; ++sample) {
    Bytes wanted = example(kOddShape);
    for (const TransformChain& link : links) wanted = seen_bytes(link, wanted, sample);
    CHECK(seen_bytes(together, example(kOddShape), sample) == wanted);
  }
}

TEST_CASE("Off, in evaluation or without strength they leave every byte") {
  const Bytes pixels = example(kOddShape);
  ir::Attributes never = all_on();
  for (const char* key : {"color_jitter_prob", "grayscale_prob", "blur_prob", "solarize_prob"})
    never.set(key, 0.0);
  const TransformChain chains[] = {
      TransformChain({}, same_size(kOddShape), kSeed), TransformChain(never, same_size(kOddShape), kSeed),
      TransformChain(all_on(), same_size(kOddShape, false), kSeed),
      TransformChain({{"color_jitter", ir::Doubles{0, 0, 0, 0}}}, same_size(kOddShape), kSeed),
      TransformChain({{"blur_prob", 1.0}, {"blur_sigma", ir::Doubles{0, 0}}}, same_size(kOddShape), kSeed)};
  for (const TransformChain& chain : chains) {
    for (std::int64_t sample = 0; sample < 50; ++sample) CHECK(seen_bytes(chain, pixels, sample) == pixels);
  }
}

TEST_CASE("Each epoch and seed jitters anew; images of one pixel are as good as others") {
  const Bytes pixel = {200, 90, 30};
  const TransformChain chain(all_on(), same_size({3, 1, 1}), kSeed),
      other(all_on(), same_size({3, 1, 1}), kSeed + 1);
  std::map<Bytes, int> counts;
  for (std::int64_t sample = 0; sample < 100; ++sample) {
    const Bytes now = seen_bytes(chain, pixel, sample);
    CHECK(seen_bytes(chain, pixel, sample) == now);
    ++counts[now];
    ++counts[seen_bytes(chain, pixel, sample, kEpoch + 1)];
    ++counts[seen_bytes(other, pixel, sample)];
  }
  CHECK(counts.size() > 200);
}

TEST_CASE("What they cannot do is refused by name") {
  const auto message = [](const ir::Attributes& values, const ir::Shape& shape = {3, 8, 8}) {
    return message_of<UserError>([&] { TransformChain(values, same_size(shape), 0); });
  };
  const auto jitter = [](ir::Doubles strengths) {
    return ir::Attributes{{"color_jitter", std::move(strengths)}};
  };
  CHECK(message(jitter({0.4, 0.4, 0.4})) ==
        "transforms.color_jitter has 3 values; it takes none, or 4: brightness, contrast, saturation, hue");
  CHECK(message(jitter({0.4, 0.4, 0.4, 0.6})) ==
        "transforms.color_jitter has a hue of 0.6; the maximum is 0.5");
  CHECK(message(jitter({-1, 0, 0, 0})) ==
        "transforms.color_jitter=-1 is out of range: it takes a list of floats 0 to 100");
  for (const ir::Doubles& strengths : {ir::Doubles{0, 0, 0.1, 0}, ir::Doubles{0, 0, 0, 0.1}}) {
    CHECK(message(jitter(strengths), {1, 8, 8}) ==
          "transforms.color_jitter changes saturation or hue, which needs images of 3 channels, not 1");
  }
  CHECK(message(jitter({0.4, 0.4, 0, 0}), {1, 8, 8}) == "(nothing was thrown)");
  CHECK(message({{"grayscale_prob", 0.1}}, {1, 8, 8}) ==
        "transforms.grayscale_prob needs images of 3 channels; these have 1");
  CHECK(message({{"grayscale_prob", 1.1}}) ==
        "transforms.grayscale_prob=1.1 is out of range: it takes a float 0 to 1");
  for (const ir::Doubles& sigmas : {ir::Doubles{}, ir::Doubles{1}, ir::Doubles{2, 1}}) {
    CHECK(message({{"blur_prob", 0.1}, {"blur_sigma", sigmas}}) ==
          "transforms.blur_sigma takes two numbers, the smaller one first");
  }
  CHECK(message({{"blur_prob", 0.1}, {"blur_sigma", ir::Doubles{1, 101}}}) ==
        "transforms.blur_sigma=101 is out of range: it takes a list of floats 0 to 100");
  CHECK(message({{"solarize_threshold", std::int64_t{256}}}) ==
        "transforms.solarize_threshold=256 is out of range: it takes an int 0 to 255");
}

TEST_CASE("A core changes 500 images of 224 x 224 a second in any way", "[.benchmark]") {
  const ir::Shape shape = {3, 224, 224};
  Bytes pixels = example(shape);
  for (const auto& [op, work] : kOps) {
    constexpr int kCount = 100;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCount; ++i) work(picture(pixels, shape), op == "solarize" ? 128 : 0.4);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    WARN(op << ": " << static_cast<int>(kCount / seconds.count()) << " images/s");
    CHECK(kCount / seconds.count() >= 500);
  }
}

}  // namespace
}  // namespace rewire::runtime

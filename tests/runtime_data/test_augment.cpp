// RandAugment and random erasing: pixels against Pillow's, timm's and torchvision's, draws against the documented
// streams, and their statistics.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "ir/error.h"
#include "runtime/data/vision/augment_ops.h"
#include "runtime/data/vision/transform.h"
#include "runtime/io/safetensors.h"
#include "tests/runtime_data/same_size.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime::augment_test {
namespace {

using test::message_of;
using Bytes = std::vector<std::uint8_t>;

const TensorMap& goldens() {
  static const TensorMap all = read_safetensors(std::string(REWIRE_GOLDENS) + "/augment.safetensors").tensors;
  return all;
}

Bytes bytes_of(const HostTensor& tensor) {
  const auto bytes = tensor.as<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

int most_difference(const Bytes& a, const Bytes& b) {
  REQUIRE(a.size() == b.size());
  int most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

void apply_named(Picture picture, const std::string& op, double argument, Interpolation interpolation,
                 const Bytes& fill) {
  const auto affine = [&](const AffineMap& map) { apply_affine(picture, map, interpolation, fill); };
  if (op == "posterize") return posterize(picture, static_cast<int>(argument));
  if (op == "solarize_add") return solarize_add(picture, static_cast<int>(argument));
  if (op == "invert") return invert(picture);
  if (op == "auto_contrast") return auto_contrast(picture);
  if (op == "equalize") return equalize(picture);
  if (op == "sharpness") return adjust_sharpness(picture, static_cast<float>(argument));
  if (op == "rotate") return affine(rotation(argument, picture.height, picture.width));
  if (op == "shear_x") return affine({1, argument, 0, 0, 1, 0});
  if (op == "shear_y") return affine({1, 0, 0, argument, 1, 0});
  if (op == "translate_x") return affine({1, 0, argument, 0, 1, 0});
  if (op == "translate_y") return affine({1, 0, 0, 0, 1, argument});
  FAIL("no op " << op);
}

TEST_CASE("Operations on images are Pillow's, byte for byte but where positions lie between pixels") {
  int cases = 0;
  for (const auto& [name, tensor] : goldens()) {
    const std::size_t colon = name.find(':');
    if (colon == std::string::npos) continue;
    CAPTURE(name);
    const std::size_t dot = name.find('.', 3), next = name.find(':', colon + 1);
    const std::string stem = name.substr(0, dot), op = name.substr(dot + 1, colon - dot - 1);
    const double argument = std::stod(name.substr(colon + 1));
    const std::string word = next == std::string::npos ? "nearest" : name.substr(next + 1);
    const Interpolation interpolation = word == "bicubic"    ? Interpolation::bicubic
                                        : word == "bilinear" ? Interpolation::bilinear
                                                             : Interpolation::nearest;
    Bytes pixels = bytes_of(goldens().at(stem + ".image"));
    const ir::Shape& shape = tensor.type().shape;
    apply_named({pixels, shape[0], shape[1], shape[2]}, op, argument, interpolation,
                bytes_of(goldens().at(stem + ".fill")));
    CHECK(most_difference(pixels, bytes_of(tensor)) <= (interpolation == Interpolation::nearest ? 0 : 1));
    ++cases;
  }
  CHECK(cases == 6 * 26);
}

TEST_CASE("Nothing is left by posterize to no bits, and long maps leave the fill") {
  Bytes pixels(2 * 5 * 7, 200);
  posterize({pixels, 2, 5, 7}, 0);
  CHECK(pixels == Bytes(2 * 5 * 7, 0));
  const Bytes fill = {3, 9};
  for (const Interpolation interpolation :
       {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
    apply_affine({pixels, 2, 5, 7}, {1, 0.3, 100, 0.2, 1, 0}, interpolation, fill);
    Bytes expected(35, 3);
    expected.resize(70, 9);
    CHECK(pixels == expected);
  }
}

ir::Attributes augmented(const std::string& form, std::int64_t ops, double magnitude, double prob = 1) {
  return {{"rand_augment", form},
          {"rand_augment_ops", ops},
          {"rand_augment_magnitude", magnitude},
          {"rand_augment_prob", prob}};
}

Bytes seen(const TransformChain& chain, const Bytes& pixels, std::int64_t epoch, std::int64_t sample) {
  std::vector<float> image(pixels.size());
  apply(chain, pixels, chain.shape(), image, epoch, sample);
  Bytes bytes;
  for (const float pixel : image) bytes.push_back(static_cast<std::uint8_t>(std::lround(pixel * 255)));
  return bytes;
}

constexpr std::uint64_t kSeed = 20;
constexpr int kTimmOps = 15, kTorchvisionOps = 14;

/// The documented draws of operation `i` of `ops`.
struct Drawn {
  SampleRandom random;
  std::uint64_t first;

  Drawn(std::int64_t epoch, std::int64_t sample, std::uint64_t ops = 1, std::uint64_t i = 0)
      : random{{kSeed, static_cast<std::uint32_t>(epoch), ir::stream_hash("data.augment.rand_augment")},
               static_cast<std::uint64_t>(sample)},
        first(8 * (ops * random.sample + i)) {}

  std::int64_t op(std::int64_t count) const { return random.below(first, count); }
  bool is_negative() const { return random.below(first + 1, 2) == 1; }
  double whether() const { return random.stream.uniform(first + 2); }
  bool is_bicubic() const { return random.below(first + 3, 2) == 1; }

  /// The answer of the reference, whose names leave out what an operation has no use for.
  const HostTensor& answer(const std::string& form, const std::string& image, double magnitude) const {
    const bool is_timm = form == "timm";
    const std::string stem = fmt::format("{}.{}.{}{}.{}", form, image, magnitude,
                                         is_timm && magnitude == std::trunc(magnitude) ? ".0" : "",
                                         op(is_timm ? kTimmOps : kTorchvisionOps));
    const std::string sign = is_negative() ? ".-1" : ".1";
    for (const std::string& key :
         {stem, stem + sign, stem + sign + (is_bicubic() ? ".bicubic" : ".bilinear")}) {
      if (const auto found = goldens().find(key); found != goldens().end()) return found->second;
    }
    FAIL("no answer " << stem);
    return goldens().begin()->second;
  }
};

/// Where each of `counts.size()` cells is as likely as another, or has its share.
double chi_squared(const std::vector<int>& counts, std::vector<double> shares = {}) {
  double sum = 0, all = 0;
  for (const int count : counts) all += count;
  if (shares.empty()) shares.assign(counts.size(), 1.0 / static_cast<double>(counts.size()));
  for (std::size_t i = 0; i < counts.size(); ++i)
    sum += std::pow(counts[i] - all * shares[i], 2) / (all * shares[i]);
  return sum;
}

/// Five deviations above what is to be expected.
double most_chi_squared(std::size_t cells) {
  const auto degrees = static_cast<double>(cells) - 1;
  return degrees + 5 * std::sqrt(2 * degrees);
}

TEST_CASE("Each draw's image is timm's or torchvision's own, at one level a pixel") {
  for (const std::string form : {"timm", "torchvision"}) {
    for (const std::string name : {"colour", "grey", "pixel"}) {
      const HostTensor& image = goldens().at(name + ".image");
      for (const double magnitude : form == "timm" ? std::vector{3.7, 9.0} : std::vector{9.0, 26.0}) {
        const TransformChain chain(augmented(form, 1, magnitude), same_size(image.type().shape), kSeed);
        std::set<const HostTensor*> met;
        for (std::int64_t sample = 0; sample < 1500; ++sample) {
          const Drawn draw(3, sample);
          const HostTensor& answer = draw.answer(form, name, magnitude);
          met.insert(&answer);
          CAPTURE(form, name, magnitude, sample, draw.op(form == "timm" ? kTimmOps : kTorchvisionOps));
          REQUIRE(most_difference(seen(chain, bytes_of(image), 3, sample), bytes_of(answer)) <= 1);
        }
        // timm: 6 without a sign, 4 with one, 5 with an interpolation too; torchvision: 5 without, 9 with.
        CHECK(met.size() == (form == "timm" ? 6 + 4 * 2 + 5 * 4 : 5 + 9 * 2));
      }
    }
  }
}

TEST_CASE("Operations, signs and interpolations are drawn evenly and independently") {
  const HostTensor& image = goldens().at("grey.image");
  const TransformChain chain(augmented("timm", 1, 9), same_size(image.type().shape), kSeed);
  constexpr int kDraws = 30'000;
  std::vector<int> counts(kTimmOps * 4);
  for (int i = 0; i < kDraws; ++i) {
    const Drawn draw(i % 5, i / 5);
    REQUIRE(most_difference(seen(chain, bytes_of(image), i % 5, i / 5),
                            bytes_of(draw.answer("timm", "grey", 9))) <= 1);
    ++counts[static_cast<std::size_t>(draw.op(kTimmOps) * 4 + draw.is_negative() * 2 + draw.is_bicubic())];
  }
  CAPTURE(kSeed, chi_squared(counts));
  CHECK(chi_squared(counts) < most_chi_squared(counts.size()));
}

TEST_CASE("Operations follow one another, each with draws of its own") {
  const HostTensor& image = goldens().at("colour.image");
  const Bytes pixels = bytes_of(image);
  const TransformChain two(augmented("torchvision", 2, 9), same_size(image.type().shape), kSeed);
  std::vector<int> pairs(kTorchvisionOps * kTorchvisionOps);
  constexpr std::int64_t kSamples = 20'000;
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    const Drawn first(0, sample, 2, 0), second(0, sample, 2, 1);
    const std::int64_t a = first.op(kTorchvisionOps), b = second.op(kTorchvisionOps);
    ++pairs[static_cast<std::size_t>(a * kTorchvisionOps + b)];
    if (a != 0 && b != 0) continue;  // operation 0 changes nothing
    const Bytes answer = bytes_of((a == 0 ? second : first).answer("torchvision", "colour", 9));
    CHECK(most_difference(seen(two, pixels, 0, sample), answer) <= 1);
  }
  CAPTURE(kSeed, chi_squared(pairs));
  CHECK(chi_squared(pairs) < most_chi_squared(pairs.size()));

  constexpr double kShare = 0.3;
  const TransformChain some(augmented("timm", 1, 9, kShare), same_size(image.type().shape), kSeed);
  std::vector<int> applied(2);
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    const Drawn draw(0, sample);
    const bool is_applied = draw.whether() < kShare;
    ++applied[is_applied ? 1 : 0];
    const Bytes answer = is_applied ? bytes_of(draw.answer("timm", "colour", 9)) : pixels;
    REQUIRE(most_difference(seen(some, pixels, 0, sample), answer) <= (is_applied ? 1 : 0));
  }
  CAPTURE(chi_squared(applied, {1 - kShare, kShare}));
  CHECK(chi_squared(applied, {1 - kShare, kShare}) < most_chi_squared(2));
}

TEST_CASE("timm's level is normal about the magnitude and ends at 0 and 10") {
  constexpr double kMean = 5, kDeviation = 2;
  ir::Attributes values = augmented("timm", 1, kMean);
  values.set("rand_augment_mstd", kDeviation);
  const TransformChain chain(values, same_size({3, 1, 1}), kSeed);
  constexpr std::int64_t kBrightness = 9;
  std::vector<int> counts(11);
  for (std::int64_t sample = 0; sample < 90'000; ++sample) {
    const Drawn draw(1, sample);
    if (draw.op(kTimmOps) != kBrightness || draw.is_negative()) continue;
    // 100 becomes 100 (1 + 0.09 level), cut: a ninth of a level a byte.
    const int ninths = seen(chain, {100, 100, 100}, 1, sample)[0] - 100;
    ++counts[static_cast<std::size_t>(ninths / 9)];
  }
  const auto below = [](double level) {
    return 0.5 * std::erfc((kMean - level) / kDeviation / std::sqrt(2));
  };
  std::vector<double> shares;
  for (int level = 0; level <= 10; ++level)
    shares.push_back((level == 10 ? 1 : below(level + 1)) - (level == 0 ? 0 : below(level)));
  CAPTURE(kSeed, chi_squared(counts, shares));
  CHECK(chi_squared(counts, shares) < most_chi_squared(counts.size()));
}

TEST_CASE("The fill is the library's own, one value, or one a channel") {
  // A map shows the fill where it leads outside; an image of one grey shows the fill there alone.
  const Bytes grey(3 * 8 * 8, 50);
  const auto fills = [&](const std::string& form, ir::Doubles fill) {
    ir::Attributes values = augmented(form, 1, 9);
    values.set("rand_augment_fill", std::move(fill));
    const TransformChain chain(values, same_size({3, 8, 8}), kSeed);
    std::set<int> met;
    for (std::int64_t sample = 0; sample < 300; ++sample) {
      const std::int64_t op = Drawn(0, sample).op(form == "timm" ? kTimmOps : kTorchvisionOps);
      const bool is_rotation = op == (form == "timm" ? 3 : 5);
      if (!is_rotation) continue;
      const Bytes image = seen(chain, grey, 0, sample);
      for (std::size_t channel = 0; channel < 3; ++channel) met.insert(image[channel * 64]);
    }
    return met;
  };
  CHECK(fills("timm", {}) == std::set{128});
  CHECK(fills("torchvision", {}) == std::set{0});
  CHECK(fills("torchvision", {7}) == std::set{7});
  CHECK(fills("timm", {124, 116, 104}) == std::set{124, 116, 104});
}

constexpr std::uint64_t kEraseDraws = 44;

struct ErasedBox {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const ErasedBox&) const = default;
};

/// By the documented draws and timm's formula; nothing where no try fits.
std::optional<ErasedBox> drawn_box(const ir::Shape& shape, const SampleRandom& random, double probability,
                                   const ir::Doubles& area, const ir::Doubles& ratio) {
  const std::uint64_t begin = random.sample * kEraseDraws;
  if (random.stream.uniform(begin) >= probability) return {};
  for (std::uint64_t draw = begin + 4; draw < begin + kEraseDraws; draw += 4) {
    const double share = area[0] + (area[1] - area[0]) * random.stream.uniform(draw);
    const double low = std::log(ratio[0]), high = std::log(ratio[1]);
    const double tall = std::exp(low + (high - low) * random.stream.uniform(draw + 1));
    const double pixels = share * static_cast<double>(shape[1] * shape[2]);
    const auto height = static_cast<std::int64_t>(std::nearbyint(std::sqrt(pixels * tall)));
    const auto width = static_cast<std::int64_t>(std::nearbyint(std::sqrt(pixels / tall)));
    if (height >= shape[1] || width >= shape[2]) continue;
    return ErasedBox{random.below(draw + 2, shape[1] - height + 1),
                     random.below(draw + 3, shape[2] - width + 1), height, width};
  }
  return {};
}

/// The normal number below which a share of all lies.
float quantile(double share) {
  double low = -6, high = 6;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2)) < share ? low : high) = middle;
  }
  return static_cast<float>(low);
}

SampleRandom erasing_random(std::int64_t epoch, std::int64_t sample) {
  return {{kSeed, static_cast<std::uint32_t>(epoch), ir::stream_hash("data.augment.random_erasing")},
          static_cast<std::uint64_t>(sample)};
}

ir::Attributes erased(double prob, const std::string& mode, ir::Doubles area) {
  return {{"erase_prob", prob}, {"erase_mode", mode}, {"erase_area", std::move(area)}};
}

TEST_CASE("A box of each drawn place and size is erased, and nothing else") {
  const ir::Shape shape = {2, 12, 21};
  const ir::Doubles area = {0.02, 0.9}, ratio = {0.3, 1 / 0.3};
  const Bytes pixels(2 * 12 * 21, 255);
  for (const std::string mode : {"const", "rand", "pixel"}) {
    const TransformChain chain(erased(0.6, mode, area), same_size(shape), kSeed);
    int boxes = 0;
    for (std::int64_t sample = 0; sample < 800; ++sample) {
      const SampleRandom random = erasing_random(2, sample);
      const std::optional<ErasedBox> box = drawn_box(shape, random, 0.6, area, ratio);
      boxes += box.has_value();
      std::vector<float> image(pixels.size()), expected(pixels.size(), 1.0F);
      apply(chain, pixels, shape, image, 2, sample);
      const std::uint64_t begin = random.sample * kEraseDraws;
      std::uint32_t number = 0;
      const auto next_normal = [&] {
        const ir::PhiloxBlock block = ir::philox4x32_10(
            {number / 8, 0, 0, 0}, {random.stream.bits(begin + 1), random.stream.bits(begin + 2)});
        const std::uint32_t bits = block[number % 8 / 2] >> (number % 2 * 16) & 0xFFFF;
        ++number;
        return quantile((bits + 0.5) / 65536);
      };
      for (std::int64_t channel = 0; box && channel < 2; ++channel) {
        const float colour = mode == "rand" ? next_normal() : 0.0F;
        for (std::int64_t y = box->top; y < box->top + box->height; ++y) {
          for (std::int64_t x = box->left; x < box->left + box->width; ++x)
            expected[static_cast<std::size_t>((channel * 12 + y) * 21 + x)] =
                mode == "pixel" ? next_normal() : colour;
        }
      }
      CAPTURE(mode, sample);
      float most = 0;
      for (std::size_t i = 0; i < image.size(); ++i) most = std::max(most, std::abs(image[i] - expected[i]));
      REQUIRE(most <= (mode == "const" ? 0 : 1e-6));
    }
    CHECK(boxes / 800.0 == Approx(0.6).margin(0.06));
  }
}

TEST_CASE("Erased boxes have the areas, ratios and places that they are drawn from, and noise is normal") {
  const ir::Shape shape = {1, 160, 200};
  const TransformChain chain(erased(1, "pixel", {0.05, 0.15}), same_size(shape), kSeed);
  const Bytes pixels(160 * 200, 0);
  constexpr int kDraws = 4000, kCells = 10;
  std::vector<int> areas(kCells), ratios(kCells), tops(kCells), lefts(kCells), normals(kCells);
  const auto count = [](std::vector<int>& cells, double share) {
    ++cells[static_cast<std::size_t>(std::clamp(share * kCells, 0.0, kCells - 1.0))];
  };
  std::vector<float> image(pixels.size());
  for (int i = 0; i < kDraws; ++i) {
    apply(chain, pixels, shape, image, i % 3, i);
    const auto first = std::ranges::find_if(image, [](float value) { return value != 0; });
    REQUIRE(first != image.end());
    const std::int64_t at = first - image.begin(), top = at / 200, left = at % 200;
    std::int64_t width = 0, height = 0;
    while (left + width < 200 && image[static_cast<std::size_t>(at + width)] != 0) ++width;
    while (top + height < 160 && image[static_cast<std::size_t>(at + height * 200)] != 0) ++height;
    count(areas, (static_cast<double>(height * width) / (160 * 200) - 0.05) / 0.1);
    count(ratios,
          0.5 + std::log(static_cast<double>(height) / static_cast<double>(width)) / (2 * std::log(1 / 0.3)));
    count(tops, (static_cast<double>(top) + 0.5) / static_cast<double>(160 - height + 1));
    count(lefts, (static_cast<double>(left) + 0.5) / static_cast<double>(200 - width + 1));
    for (std::int64_t x = 0; x < width; ++x)
      count(normals, 0.5 * std::erfc(-image[static_cast<std::size_t>(at + x)] / std::sqrt(2.0)));
  }
  // Whole pixels blur the bins of areas and ratios a little.
  for (const auto& [name, cells] : std::map<std::string, std::vector<int>>{
           {"area", areas}, {"ratio", ratios}, {"top", tops}, {"left", lefts}, {"normal", normals}}) {
    CAPTURE(kSeed, name, chi_squared(cells));
    CHECK(chi_squared(cells) < most_chi_squared(cells.size()));
  }
}

TEST_CASE("Augmentation that is off, and evaluation, leave images as they are") {
  const HostTensor& image = goldens().at("colour.image");
  const ir::Shape& shape = image.type().shape;
  const Bytes pixels = bytes_of(image);
  ir::Attributes on = augmented("timm", 2, 9);
  on.set("erase_prob", 1.0);
  ir::Attributes off = on;
  off.set("rand_augment", std::string("none"));
  off.set("erase_prob", 0.0);
  const TransformChain plain({}, same_size(shape), kSeed), silent(off, same_size(shape), kSeed),
      evaluation(on, same_size(shape, false), kSeed), training(on, same_size(shape), kSeed);
  int changed = 0;
  for (std::int64_t sample = 0; sample < 50; ++sample) {
    CHECK(seen(plain, pixels, 1, sample) == pixels);
    CHECK(seen(silent, pixels, 1, sample) == pixels);
    CHECK(seen(evaluation, pixels, 1, sample) == pixels);
    changed += seen(training, pixels, 1, sample) != pixels;
  }
  CHECK(changed > 40);
}

TEST_CASE("An image of one pixel has no box to erase") {
  const TransformChain chain(erased(1, "const", {0.02, 1}), same_size({3, 1, 1}), kSeed);
  for (std::int64_t sample = 0; sample < 50; ++sample)
    CHECK(seen(chain, {9, 8, 7}, 0, sample) == Bytes{9, 8, 7});
}

TEST_CASE("Augmentation refuses what it cannot take, by name") {
  const auto message = [](ir::Attributes values, ir::Shape shape = {3, 8, 8}) {
    return message_of<UserError>([&] { TransformChain(values, same_size(shape), 0); });
  };
  const auto with = [](ir::Attributes values, const char* key, ir::Attribute value) {
    values.set(key, std::move(value));
    return values;
  };
  CHECK(message(augmented("timm", 2, 9), {2, 8, 8}) ==
        "transforms.rand_augment needs images of 1 or 3 channels; these have 2");
  CHECK(message(augmented("torchvision", 2, 9.5)) ==
        "transforms.rand_augment_magnitude 9.5 is not one of torchvision's bins, 0 to 30");
  CHECK(message(with(augmented("torchvision", 2, 9), "rand_augment_mstd", 0.5)) ==
        "transforms.rand_augment_mstd 0.5 has an effect only with rand_augment=timm");
  CHECK(message(with(augmented("timm", 2, 9), "rand_augment_fill", ir::Doubles{1, 2})) ==
        "transforms.rand_augment_fill has 2 values; the images have 3 channels: give none, 1 or 3");
  CHECK(message(with(augmented("timm", 2, 9), "rand_augment_fill", ir::Doubles{256})) ==
        "transforms.rand_augment_fill=256 is out of range: it takes a list of floats 0 to 255");
  CHECK(message(augmented("timm", 0, 9)) ==
        "transforms.rand_augment_ops=0 is out of range: it takes an int 1 to 16");
  CHECK(message(erased(1.5, "const", {0.1, 0.2})) ==
        "transforms.erase_prob=1.5 is out of range: it takes a float 0 to 1");
  CHECK(message(erased(1, "const", {0.2, 0.1})) ==
        "transforms.erase_area takes two numbers, the smaller one first");
  CHECK(message(with(erased(1, "const", {0.1, 0.2}), "erase_ratio", ir::Doubles{0.3})) ==
        "transforms.erase_ratio takes two numbers, the smaller one first");
}

TEST_CASE("What operations cost on an image of 224 x 224", "[.benchmark]") {
  constexpr std::int64_t kSide = 224;
  Bytes pixels(3 * kSide * kSide);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37 + i / 224);
  const Picture picture{pixels, 3, kSide, kSide};
  const Bytes fill = {128, 128, 128};
  const auto time = [&](const std::string& name, const auto& run) {
    constexpr int kRuns = 300;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kRuns; ++i) run();
    const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
    WARN(fmt::format("{}: {:.0f} us", name, spent.count() / kRuns));
  };
  for (const char* op : {"posterize", "solarize_add", "invert", "auto_contrast", "equalize", "sharpness"})
    time(op, [&] {
      apply_named(picture, op, op == std::string("sharpness") ? 1.8 : 4, Interpolation::nearest, fill);
    });
  for (const auto& [name, interpolation] :
       {std::pair("nearest", Interpolation::nearest), std::pair("bilinear", Interpolation::bilinear),
        std::pair("bicubic", Interpolation::bicubic)}) {
    for (const char* op : {"rotate", "shear_x", "shear_y", "translate_x", "translate_y"})
      time(fmt::format("{} {}", op, name), [&, &kind = interpolation] {
        apply_named(picture, op, op == std::string("rotate") ? 27 : op[0] == 's' ? 0.27 : 30.3, kind, fill);
      });
  }
  for (const std::string form : {"torchvision", "timm"}) {
    const TransformChain chain(augmented(form, 2, 9, 0.5), same_size({3, kSide, kSide}), 0);
    std::vector<float> image(pixels.size());
    std::int64_t sample = 0;
    time("all of " + form, [&] { apply(chain, pixels, chain.shape(), image, 0, sample++); });
  }
  const TransformChain chain(erased(1, "pixel", {0.02, 1.0 / 3}), same_size({3, kSide, kSide}), 0);
  std::vector<float> image(pixels.size());
  std::int64_t sample = 0;
  time("erasing by noise", [&] { apply(chain, pixels, chain.shape(), image, 0, sample++); });
}

}  // namespace
}  // namespace rewire::runtime::augment_test

// What random transforms draw: 100,000 draws of each, read off what it does to an image, held to their distribution by
// Pearson's chi-squared test. Where tries that are refused leave no closed form, to as many draws of torchvision's and
// timm's own (tests/reference/draws.py).
//
// Each CHECK fails by chance for one seed in ten thousand: the threshold is the quantile at 1 - 1e-4 of the chi-squared
// distribution. Seeds are fixed, so that the outcome of a run is not chance.
#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/beta.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "ir/error.h"
#include "runtime/data/vision/augment_ops.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/data/vision/transform.h"
#include "runtime/io/safetensors.h"
#include "tests/runtime_data/same_size.h"
#include "tests/support/catch.h"

namespace rewire::runtime::draws_test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Counts = std::vector<std::int64_t>;
using Shares = std::vector<double>;

constexpr std::uint64_t kSeed = 22;
constexpr std::int64_t kDraws = 100'000;
constexpr double kOneInTenThousand = 1e-4;

// --- The tests ---------------------------------------------------------------------------------------------------------

struct ChiSquared {
  double value = 0, limit = 0;  // it may have with a probability of 1 - 1e-4
  std::int64_t cells = 0;
};

double limit_of(std::int64_t degrees) {
  if (degrees < 1) return 0;
  const boost::math::chi_squared_distribution<double> distribution(static_cast<double>(degrees));
  return boost::math::quantile(boost::math::complement(distribution, kOneInTenThousand));
}

/// Cells of which few draws are expected are taken together, as Pearson's test asks.
constexpr double kFewDraws = 10;

/// Counts against the share that each cell should have. A cell without a share must have no draw.
ChiSquared held_to(const Counts& counts, const Shares& shares) {
  REQUIRE(counts.size() == shares.size());
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  ChiSquared result;
  double rest = 0, expected_rest = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (shares[i] == 0) {
      CAPTURE(i);
      REQUIRE(counts[i] == 0);
    }
    const double expected = all * shares[i] / sum;
    if (expected < kFewDraws) {
      rest += static_cast<double>(counts[i]);
      expected_rest += expected;
      continue;
    }
    result.value += std::pow(static_cast<double>(counts[i]) - expected, 2) / expected;
    ++result.cells;
  }
  if (expected_rest >= kFewDraws) {
    result.value += std::pow(rest - expected_rest, 2) / expected_rest;
    ++result.cells;
  } else {
    REQUIRE(rest <= expected_rest + 40);  // too few for a test
  }
  result.limit = limit_of(result.cells - 1);
  return result;
}

/// Two samples of the same size, of one distribution.
ChiSquared held_to_sample(const Counts& ours, std::span<const std::int32_t> theirs) {
  REQUIRE(ours.size() == theirs.size());
  ChiSquared result;
  double rest = 0, other_rest = 0;
  const auto add = [&](double a, double b) {
    result.value += (a - b) * (a - b) / (a + b);
    ++result.cells;
  };
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto a = static_cast<double>(ours[i]), b = static_cast<double>(theirs[i]);
    if (a + b >= 2 * kFewDraws) {
      add(a, b);
    } else {
      rest += a;
      other_rest += b;
    }
  }
  if (rest + other_rest >= 2 * kFewDraws) add(rest, other_rest);
  result.limit = limit_of(result.cells - 1);
  return result;
}

Shares evenly(std::size_t cells) {
  return Shares(cells, 1);
}

void check(const ChiSquared& result, std::string_view what) {
  CAPTURE(what, kSeed, result.cells, result.limit);
  CHECK(result.value < result.limit);
  CHECK(result.cells > 1);
}

// --- The transforms ----------------------------------------------------------------------------------------------------

const TransformRow& row_of(std::string_view name) {
  const auto rows = transforms();
  const auto found = std::ranges::find(rows, name, &TransformRow::name);
  REQUIRE(found != rows.end());
  return **found;
}

/// A transform alone, as a recipe makes it, with its own stream of random numbers.
class Drawn {
 public:
  Drawn(std::string_view name, const ir::Attributes& values, const TransformContext& context)
      : stream_(ir::stream_hash(row_of(name).stream.empty() ? fmt::format("data.augment.{}", name)
                                                            : std::string(row_of(name).stream))) {
    const TransformRow& row = row_of(name);
    const ir::Attributes settled = ir::settle(row.schema, values, "transforms");
    if (row.make_batch != nullptr) {
      batch_transform_ = row.make_batch(settled, context.network);
    } else {
      transform_ = row.make(settled, context);
    }
    REQUIRE((transform_ != nullptr || batch_transform_ != nullptr));
  }

  template <class Element>
  const std::vector<Element>& operator()(const std::vector<Element>& image, std::int64_t draw) {
    static std::vector<Element> out;
    const ir::Shape& shape = transform_->shape();
    out.assign(static_cast<std::size_t>(ir::element_count(shape)),
               Element{77});  // all of it is to be written
    transform_->run({std::as_bytes(std::span(image)), shape[1], shape[2]},
                    std::as_writable_bytes(std::span(out)), random(draw));
    return out;
  }
  Box looks_at(std::int64_t height, std::int64_t width, std::int64_t draw) const {
    return transform_->looks_at(height, width, random(draw));
  }
  /// Two images, the second's label 1.
  void mix(std::vector<float>& images, std::vector<float>& targets, std::int64_t draw) const {
    batch_transform_->run(images, targets, 2, random(draw));
  }

 private:
  /// Draws go over samples and epochs.
  SampleRandom random(std::int64_t draw) const {
    return {{kSeed, static_cast<std::uint32_t>(draw % 7), stream_}, static_cast<std::uint64_t>(draw / 7)};
  }

  std::uint64_t stream_;
  std::unique_ptr<Transform> transform_;
  std::unique_ptr<BatchTransform> batch_transform_;
};

Counts counts_of(std::size_t cells, const std::function<std::int64_t(std::int64_t)>& cell_of,
                 std::int64_t draws = kDraws) {
  Counts counts(cells);
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    const std::int64_t cell = cell_of(draw);
    if (cell >= 0) ++counts.at(static_cast<std::size_t>(cell));
  }
  return counts;
}

// --- Crops and flips ---------------------------------------------------------------------------------------------------

TEST_CASE("Draws: offsets of crops and flips are even, and independent of each other", "[draws]") {
  // Each pixel has a value of its own, so that the middle one tells the offset.
  constexpr std::int64_t kHeight = 11, kWidth = 13, kPadding = 4, kPlaces = 2 * kPadding + 1;
  const TransformContext context = same_size({1, kHeight, kWidth});
  Bytes ramp(kHeight * kWidth);
  std::iota(ramp.begin(), ramp.end(), std::uint8_t{1});
  for (const std::string fill : {"zero", "reflect"}) {
    Drawn crop("random_crop", {{"crop_padding", kPadding}, {"crop_fill", fill}}, context);
    Drawn flip("horizontal_flip", {{"horizontal_flip", true}}, context);
    const Counts counts = counts_of(kPlaces * kPlaces * 2, [&](std::int64_t draw) {
      const std::int64_t at = crop(ramp, draw)[kHeight / 2 * kWidth + kWidth / 2] - 1;
      const std::int64_t dy = at / kWidth - kHeight / 2, dx = at % kWidth - kWidth / 2;
      const std::int64_t is_flipped = flip(ramp, draw)[0] == 1 ? 0 : 1;
      return ((dy + kPadding) * kPlaces + dx + kPadding) * 2 + is_flipped;
    });
    check(held_to(counts, evenly(counts.size())), fill);
  }
}

const TensorMap& draws_of_others() {
  static const TensorMap all = read_safetensors(std::string(REWIRE_GOLDENS) + "/draws.safetensors").tensors;
  return all;
}

/// Boxes as tests/reference/draws.py counts them.
class BoxCounts {
 public:
  explicit BoxCounts(const std::string& name) : name_(name) {
    const auto shape = draws_of_others().at(name + ".shape").as<std::int64_t>();
    height_ = shape[0];
    width_ = shape[1];
    const auto range = draws_of_others().at(name + ".range").as<double>();
    range_.assign(range.begin(), range.end());
    size_.resize(static_cast<std::size_t>((height_ + 1) * (width_ + 1)));
    rows_.resize(static_cast<std::size_t>((height_ + 1) * (height_ + 1)));
    columns_.resize(static_cast<std::size_t>((width_ + 1) * (width_ + 1)));
  }

  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }
  const ir::Doubles& range() const { return range_; }

  void add(const Box& box) {
    ++size_.at(static_cast<std::size_t>(box.height * (width_ + 1) + box.width));
    ++rows_.at(static_cast<std::size_t>(box.height * (height_ + 1) + box.top));
    ++columns_.at(static_cast<std::size_t>(box.width * (width_ + 1) + box.left));
  }

  void hold() const {
    const auto one = [&](const Counts& ours, const std::string& table) {
      check(held_to_sample(ours, draws_of_others().at(name_ + table).as<std::int32_t>()), name_ + table);
    };
    one(size_, ".size");
    one(rows_, ".rows");
    one(columns_, ".columns");
  }

 private:
  std::string name_;
  std::int64_t height_ = 0, width_ = 0;
  ir::Doubles range_;
  Counts size_, rows_, columns_;
};

TEST_CASE("Draws: boxes of resized crops are as torchvision's, wherever its tries end", "[draws]") {
  for (const std::string name : {"crop.plain", "crop.wide", "crop.tall"}) {
    BoxCounts counts(name);
    const ir::Doubles& range = counts.range();
    const Drawn crop("resized_crop",
                     {{"resize", std::string("bilinear")},
                      {"scale", ir::Doubles{range[0], range[1]}},
                      {"ratio", ir::Doubles{range[2], range[3]}}},
                     {{1, 0, 0}, {1, 8, 8}, true});
    for (std::int64_t draw = 0; draw < kDraws; ++draw)
      counts.add(crop.looks_at(counts.height(), counts.width(), draw));
    counts.hold();
  }
}

/// The box of the pixels that `is` is true of.
template <class Is>
Box box_where(std::span<const float> image, std::int64_t height, std::int64_t width, Is is) {
  std::int64_t top = height, bottom = 0, left = width, right = 0;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      if (!is(image[static_cast<std::size_t>(y * width + x)])) continue;
      top = std::min(top, y);
      bottom = y + 1;
      left = std::min(left, x);
      right = std::max(right, x + 1);
    }
  }
  return bottom == 0 ? Box{} : Box{top, left, bottom - top, right - left};
}

TEST_CASE("Draws: erased boxes are as timm's, wherever its tries end", "[draws]") {
  for (const std::string name : {"erase.plain", "erase.large"}) {
    BoxCounts counts(name);
    const ir::Doubles& range = counts.range();
    Drawn erase("random_erasing",
                {{"erase_prob", 1.0},
                 {"erase_area", ir::Doubles{range[0], range[1]}},
                 {"erase_ratio", ir::Doubles{range[2], range[3]}}},
                same_size({1, counts.height(), counts.width()}));
    const std::vector<float> ones(static_cast<std::size_t>(counts.height() * counts.width()), 1.0F);
    for (std::int64_t draw = 0; draw < kDraws; ++draw) {
      counts.add(box_where(erase(ones, draw), counts.height(), counts.width(),
                           [](float value) { return value == 0; }));
    }
    counts.hold();
  }
}

// --- Colours -----------------------------------------------------------------------------------------------------------

/// Brightness, contrast, saturation, hue.
Drawn jitter(ir::Doubles strengths, const ir::Shape& shape, double probability = 1) {
  return {"color_jitter",
          {{"color_jitter", std::move(strengths)}, {"color_jitter_prob", probability}},
          same_size(shape)};
}

TEST_CASE("Draws: factors of brightness, contrast and saturation are even", "[draws]") {
  // A byte at a distance of 100 from what the factor blends with: each hundredth of [0.6, 1.4) is one level, four a cell.
  constexpr int kLevels = 80;
  Bytes colour = {150, 0, 0};  // a colour whose luma is 100 below its red
  while (luma(colour[0], colour[1], colour[2]) < 50) ++colour[1];
  struct Part {
    std::string name;
    ir::Doubles strengths;
    ir::Shape shape;
    Bytes image;
    std::size_t place;
    int base;
  };
  const std::vector<Part> parts = {{"brightness", {0.4, 0, 0, 0}, {1, 1, 1}, {100}, 0, 0},
                                   {"contrast", {0, 0.4, 0, 0}, {1, 1, 2}, {0, 200}, 1, 100},
                                   {"saturation", {0, 0, 0.4, 0}, {3, 1, 1}, colour, 0, 50}};
  for (const Part& part : parts) {
    Drawn jittered = jitter(part.strengths, part.shape);
    CAPTURE(part.name);
    // The factor just below 1.4, of one draw in 2^24, is rounded to it.
    const Counts counts = counts_of(kLevels / 4, [&](std::int64_t draw) {
      const int level = jittered(part.image, draw)[part.place] - part.base - 60;
      REQUIRE(level >= 0);
      return std::min(level, kLevels - 1) / 4;
    });
    check(held_to(counts, evenly(kLevels / 4)), part.name);
  }
}

TEST_CASE("Draws: turns of the hue are even", "[draws]") {
  // Colours all around the circle, whose answers to each turn are told apart.
  const ir::Shape shape = {3, 1, 6};
  const Bytes image = {250, 230, 10, 20, 40, 240, 10, 200, 240, 220, 15, 30, 20, 10, 30, 200, 250, 90};
  std::map<Bytes, std::int64_t> turn_of;
  constexpr int kMost = 76;  // of 255 x 0.3, cut off
  for (int turn = -kMost; turn <= kMost; ++turn) {
    Bytes turned = image;
    adjust_hue({turned, 3, 1, 6}, static_cast<float>(turn + (turn < 0 ? -0.5 : 0.5)) / 255);
    turn_of.emplace(turned, turn);
  }
  REQUIRE(turn_of.size() == 2 * kMost + 1);
  Drawn jittered = jitter({0, 0, 0, 0.3}, shape);
  const Counts counts =
      counts_of(2 * kMost + 1, [&](std::int64_t draw) { return turn_of.at(jittered(image, draw)) + kMost; });
  Shares shares(2 * kMost + 1, 1);
  shares[kMost] = 2;                     // (-1, 1)
  shares.front() = shares.back() = 0.5;  // up to 76.5
  check(held_to(counts, shares), "hue");
}

TEST_CASE("Draws: each order of the four changes of colour is as likely", "[draws]") {
  // The factors are the documented ones; the order is the one whose pixels they make. Where two orders make the same
  // pixels, whichever was drawn, the draw is left out.
  const ir::Shape shape = {3, 2, 9};
  const auto pixels = static_cast<std::size_t>(ir::element_count(shape));
  Bytes image(pixels);
  for (std::size_t i = 0; i < pixels; ++i) image[i] = static_cast<std::uint8_t>(40 + 53 * i % 180);
  constexpr double kStrength = 0.6, kTurn = 0.3;
  Drawn jittered = jitter({kStrength, kStrength, kStrength, kTurn}, shape);
  const auto change = [](Bytes& bytes, std::size_t op, float factor) {
    const Picture picture{bytes, 3, 2, 9};
    if (op == 0) return adjust_brightness(picture, factor);
    if (op == 1) return adjust_contrast(picture, factor);
    return op == 2 ? adjust_saturation(picture, factor) : adjust_hue(picture, factor);
  };
  std::int64_t left_out = 0;
  const Counts counts = counts_of(24, [&](std::int64_t draw) -> std::int64_t {
    const ir::PhiloxStream stream{kSeed, static_cast<std::uint32_t>(draw % 7),
                                  ir::stream_hash("data.augment.color_jitter")};
    float factors[4];
    for (std::uint64_t op = 0; op < 4; ++op) {
      const double share = stream.uniform(static_cast<std::uint64_t>(draw / 7) * 8 + 4 + op);
      factors[op] =
          static_cast<float>(op == 3 ? -kTurn + 2 * kTurn * share : 1 - kStrength + 2 * kStrength * share);
    }
    std::vector<Bytes> answers;
    const std::function<void(const Bytes&, unsigned)> go_on = [&](const Bytes& before, unsigned done) {
      if (done == 0b1111) answers.push_back(before);
      for (std::size_t op = 0; op < 4; ++op) {
        if ((done >> op & 1U) != 0) continue;
        Bytes after = before;
        change(after, op, factors[op]);
        go_on(after, done | 1U << op);
      }
    };
    go_on(image, 0);
    const auto found = std::ranges::find(answers, jittered(image, draw));
    REQUIRE(found != answers.end());
    const std::int64_t order = found - answers.begin();
    std::ranges::sort(answers);
    if (std::ranges::adjacent_find(answers) == answers.end()) return order;
    ++left_out;
    return -1;
  });
  CHECK(left_out < kDraws / 10);
  check(held_to(counts, evenly(24)), "order");
}

TEST_CASE("Draws: the deviation of the blur is even", "[draws]") {
  // Of a single bright pixel less is left, the wider the blur; how much of [0.1, 2] leaves each byte tells the share.
  constexpr std::size_t kWidth = 33;
  constexpr int kGrid = 200'000;
  Bytes spark(kWidth, 0);
  spark[kWidth / 2] = 255;
  Shares shares(256, 0);
  for (int i = 0; i < kGrid; ++i) {
    Bytes blurred = spark;
    gaussian_blur({blurred, 1, 1, kWidth}, 0.1 + 1.9 * (i + 0.5) / kGrid);
    shares[blurred[kWidth / 2]] += 1;
  }
  Drawn blur("gaussian_blur", {{"blur_prob", 1.0}, {"blur_sigma", ir::Doubles{0.1, 2}}},
             same_size({1, 1, kWidth}));
  check(held_to(counts_of(256, [&](std::int64_t draw) { return blur(spark, draw)[kWidth / 2]; }), shares),
        "deviation");
}

TEST_CASE("Draws: each transform changes its share of the images", "[draws]") {
  struct Sometimes {
    std::string name;
    ir::Attributes values;
    double share;
  };
  // Only changes that show: a factor of up to 101 leaves a byte as it is for 1 in 20,000.
  const std::vector<Sometimes> all = {
      {"color_jitter", {{"color_jitter", ir::Doubles{100, 0, 0, 0}}, {"color_jitter_prob", 0.8}}, 0.8},
      {"grayscale", {{"grayscale_prob", 0.2}}, 0.2},
      {"gaussian_blur", {{"blur_prob", 0.5}, {"blur_sigma", ir::Doubles{1, 2}}}, 0.5},
      {"solarize", {{"solarize_prob", 0.03}}, 0.03},
  };
  const Bytes image = {200, 30, 40, 10, 220, 100};
  for (const auto& [name, values, share] : all) {
    Drawn drawn(name, values, same_size({3, 1, 2}));
    const Counts counts =
        counts_of(2, [&](std::int64_t draw) { return drawn(image, draw) == image ? 0 : 1; });
    check(held_to(counts, {1 - share, share}), name);
  }
  Drawn erase("random_erasing", {{"erase_prob", 0.25}, {"erase_area", ir::Doubles{0.1, 0.2}}},
              same_size({1, 12, 12}));
  const std::vector<float> ones(144, 1.0F);
  const Counts erased = counts_of(2, [&](std::int64_t draw) { return erase(ones, draw) == ones ? 0 : 1; });
  check(held_to(erased, {0.75, 0.25}), "random_erasing");
}

// --- RandAugment -------------------------------------------------------------------------------------------------------

/// The libraries' own answers, each with the share of draws that should give it: two operations may have one.
struct Answers {
  std::vector<Bytes> pixels;
  Shares shares;
};

Answers answers_of(const TensorMap& goldens, const std::string& stem, int ops) {
  Answers answers;
  for (int op = 0; op < ops; ++op) {
    std::vector<Bytes> found;
    for (const auto& [name, tensor] : goldens) {
      const std::string begin = fmt::format("{}.{}", stem, op);
      if (name != begin && !name.starts_with(begin + ".")) continue;
      const auto bytes = tensor.as<std::uint8_t>();
      found.emplace_back(bytes.begin(), bytes.end());
    }
    REQUIRE((found.size() == 1 || found.size() == 2 || found.size() == 4));
    for (Bytes& answer : found) {
      const double share = 1.0 / ops / static_cast<double>(found.size());
      const auto same = std::ranges::find(answers.pixels, answer);
      if (same != answers.pixels.end()) {
        answers.shares[static_cast<std::size_t>(same - answers.pixels.begin())] += share;
      } else {
        answers.shares.push_back(share);
        answers.pixels.push_back(std::move(answer));
      }
    }
  }
  return answers;
}

bool is_near(const Bytes& a, const Bytes& b) {
  return std::ranges::equal(a, b, [](int x, int y) { return std::abs(x - y) <= 1; });
}

TEST_CASE("Draws: operations of RandAugment, their signs and interpolations are even", "[draws]") {
  const TensorMap goldens = read_safetensors(std::string(REWIRE_GOLDENS) + "/augment.safetensors").tensors;
  const HostTensor& colour = goldens.at("colour.image");
  const auto bytes = colour.as<std::uint8_t>();
  const Bytes image(bytes.begin(), bytes.end());
  for (const std::string form : {"timm", "torchvision"}) {
    const bool is_timm = form == "timm";
    const Answers answers = is_timm ? answers_of(goldens, "timm.colour.9.0", 15)
                                    : answers_of(goldens, "torchvision.colour.26", 14);
    CHECK(answers.pixels.size() == (is_timm ? 6 + 4 * 2 + 5 * 4 : 4 + 9 * 2));  // Equalize leaves it as it is
    Drawn augment("rand_augment",
                  {{"rand_augment", form},
                   {"rand_augment_ops", std::int64_t{1}},
                   {"rand_augment_magnitude", is_timm ? 9.0 : 26.0},
                   {"rand_augment_prob", 1.0}},
                  same_size(colour.type().shape));
    std::map<Bytes, std::int64_t> known;
    const Counts counts = counts_of(answers.pixels.size(), [&](std::int64_t draw) {
      const Bytes& seen = augment(image, draw);
      const auto [place, is_new] = known.try_emplace(seen, -1);
      if (is_new) {
        for (std::size_t i = 0; i < answers.pixels.size(); ++i) {
          if (!is_near(seen, answers.pixels[i])) continue;
          REQUIRE(place->second == -1);  // or two answers could not be told apart
          place->second = static_cast<std::int64_t>(i);
        }
        REQUIRE(place->second >= 0);
      }
      return place->second;
    });
    check(held_to(counts, answers.shares), form);
  }
}

TEST_CASE("Draws: of two operations each pair is as likely, each applied with its probability", "[draws]") {
  // One pixel, filled from outside with its own colour: maps, sharpness, auto-contrast and equalize leave it alone.
  // Solarize (threshold 0) and invert make 255 - x, posterize to no bits black; each a fifteenth. SolarizeAdd and the
  // blends are the other kinds.
  const Bytes image = {10, 100, 250};
  constexpr double kShare = 0.4;
  Drawn augment("rand_augment",
                {{"rand_augment", std::string("timm")},
                 {"rand_augment_ops", std::int64_t{2}},
                 {"rand_augment_magnitude", 10.0},
                 {"rand_augment_prob", kShare},
                 {"rand_augment_fill", ir::Doubles{10, 100, 250}}},
                same_size({3, 1, 1}));
  // From the image: unchanged (0), inverted (1), black (2), other (3). Black stays black under all but inversion, which
  // makes it white, and SolarizeAdd, which makes it grey. White is met by inverting black alone.
  const Counts counts = counts_of(5, [&](std::int64_t draw) -> std::int64_t {
    const Bytes& seen = augment(image, draw);
    if (seen == image) return 0;
    if (seen == Bytes{245, 155, 5}) return 1;
    if (seen == Bytes{255, 255, 255}) return 4;
    return seen == Bytes{0, 0, 0} ? 2 : 3;
  });
  const double one = kShare / 15, still = 1 - kShare + kShare * 8 / 15;  // 5 maps, sharpness, 2 of histograms
  const double inverted = 2 * one;
  Shares shares(5);
  shares[0] = still * still + inverted * inverted;
  shares[1] = 2 * still * inverted;
  shares[4] = one * inverted;                       // posterize, then inversion
  const double black_stays = 1 - inverted - one;    // all but inversions and SolarizeAdd
  shares[2] = one * black_stays + (1 - one) * one;  // first, or second behind any other
  shares[3] = 1 - shares[0] - shares[1] - shares[2] - shares[4];
  check(held_to(counts, shares), "pairs");
}

TEST_CASE("Draws: timm's level is normal, and cut to 0 and 10", "[draws]") {
  constexpr double kMean = 5, kDeviation = 2;
  // A single pixel, filled from outside with its own colour, that a darker brightness makes (10, 100, 250) x (1 - 0.09
  // level): alone among all operations it leaves red below 10 but not 0 and green below 100.
  const Bytes image = {10, 100, 250};
  Drawn augment("rand_augment",
                {{"rand_augment", std::string("timm")},
                 {"rand_augment_ops", std::int64_t{1}},
                 {"rand_augment_magnitude", kMean},
                 {"rand_augment_mstd", kDeviation},
                 {"rand_augment_prob", 1.0},
                 {"rand_augment_fill", ir::Doubles{10, 100, 250}}},
                same_size({3, 1, 1}));
  constexpr std::int64_t kCells = 30;  // green 99 down to 10, a ninth of a level each, three a cell
  const Counts counts = counts_of(
      kCells,
      [&](std::int64_t draw) -> std::int64_t {
        const Bytes& seen = augment(image, draw);
        const bool is_darker = seen[0] >= 1 && seen[0] <= 9 && seen[1] < 100 && seen[2] < 250;
        return is_darker ? (99 - seen[1]) / 3 : -1;
      },
      30 * kDraws);
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  CHECK(all > kDraws * 9 / 10);  // a thirtieth: the operation and its sign
  const boost::math::normal_distribution<double> normal(kMean, kDeviation);
  Shares shares;
  for (std::int64_t cell = 0; cell < kCells; ++cell) {
    const double to = cell + 1 == kCells ? 1 : boost::math::cdf(normal, static_cast<double>(cell + 1) / 3);
    shares.push_back(to - boost::math::cdf(normal, static_cast<double>(cell) / 3));
  }
  check(held_to(counts, shares), "level");
}

// --- Batches -----------------------------------------------------------------------------------------------------------

TEST_CASE("Draws: MixUp's shares have the Beta distribution", "[draws]") {
  constexpr std::int64_t kCells = 20;
  for (const double alpha : {0.2, 0.8, 1.0, 5.0}) {
    const Drawn mix("mix", {{"mixup", alpha}}, same_size({1, 1, 1}));
    const boost::math::beta_distribution<double> beta(alpha, alpha);
    Counts counts(kCells);
    float worst = 0;
    for (std::int64_t draw = 0; draw < kDraws; ++draw) {
      std::vector<float> images = {0, 1}, targets = {1, 0, 0, 1};
      mix.mix(images, targets, draw);
      worst = std::max(worst, std::abs(images[0] - targets[1]));
      // Of a share that is nearly 1, what is left of it tells more.
      const double share = targets[0], rest = targets[1];
      const double below = share < 0.5 ? boost::math::cdf(beta, share)
                                       : 1 - boost::math::cdf(beta, std::clamp(rest, 0.0, 1.0));
      ++counts[static_cast<std::size_t>(std::clamp<double>(below * kCells, 0, kCells - 1))];
    }
    CHECK(worst < 1e-6F);
    check(held_to(counts, evenly(kCells)), fmt::format("alpha {}", alpha));
  }
}

TEST_CASE("Draws: CutMix's boxes are as timm's", "[draws]") {
  for (const std::string name : {"cutmix.even", "cutmix.ends"}) {
    BoxCounts counts(name);
    const std::int64_t height = counts.height(), width = counts.width();
    const Drawn mix("mix", {{"cutmix", counts.range()[0]}}, same_size({1, height, width}));
    const auto pixels = static_cast<std::size_t>(height * width);
    for (std::int64_t draw = 0; draw < kDraws; ++draw) {
      std::vector<float> images(2 * pixels, 0.0F), targets = {1, 0, 0, 1};
      std::fill(images.begin() + static_cast<std::ptrdiff_t>(pixels), images.end(), 1.0F);
      mix.mix(images, targets, draw);
      counts.add(
          box_where(std::span(images).first(pixels), height, width, [](float value) { return value == 1; }));
    }
    counts.hold();
  }
}

TEST_CASE("Draws: batches are mixed, and cut, with their probabilities", "[draws]") {
  // CutMix leaves whole numbers, MixUp a share, which for alpha = 1000 is near one half. CutMix's box of so even a
  // share is never empty.
  const Drawn mix("mix",
                  {{"mixup", 1000.0}, {"cutmix", 1000.0}, {"mix_prob", 0.7}, {"mix_switch_prob", 0.35}},
                  same_size({1, 6, 6}));
  const Counts counts = counts_of(3, [&](std::int64_t draw) {
    std::vector<float> images(72, 0.0F), targets = {1, 0, 0, 1};
    std::fill(images.begin() + 36, images.end(), 1.0F);
    mix.mix(images, targets, draw);
    if (targets[0] == 1) return 0;
    return images[0] > 0 && images[0] < 1 ? 1 : 2;
  });
  check(held_to(counts, {0.3, 0.7 * 0.65, 0.7 * 0.35}), "mix");
}

TEST_CASE("Draws: each order of an epoch is as likely", "[draws]") {
  std::map<std::vector<std::uint32_t>, std::int64_t> cells;
  std::vector<std::uint32_t> order(5);
  std::iota(order.begin(), order.end(), 0U);
  do cells.emplace(order, std::ssize(cells));
  while (std::ranges::next_permutation(order).found);
  REQUIRE(cells.size() == 120);
  const Counts counts = counts_of(120, [&](std::int64_t draw) {
    return cells.at(epoch_order(5, kSeed + static_cast<std::uint64_t>(draw % 50), draw / 50));
  });
  check(held_to(counts, evenly(120)), "order");
}

}  // namespace
}  // namespace rewire::runtime::draws_test

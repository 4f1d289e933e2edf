// Random erasing (Zhong et al., 2020), as timm's RandomErasing: a box of the normalized image becomes
// zero, one random colour or noise.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "ir/error.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

enum class Content : std::uint8_t { zero, colour, noise };

/// Returns for each 16-bit number the normal quantile of (bits + 1/2) / 2^16.
std::vector<float> normal_quantiles() {
  constexpr std::size_t kCount = 1 << 16;
  std::vector<float> quantiles(kCount);
  double x = 0;
  for (std::size_t i = kCount / 2; i < kCount; ++i) {
    const double above = (static_cast<double>(kCount - 1 - i) + 0.5) / kCount;
    // Newton's method: each quantile is a good start for the next.
    for (int step = 0; step < 6; ++step) {
      const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
      x += (0.5 * std::erfc(x / std::numbers::sqrt2) - above) / density;
    }
    quantiles[i] = static_cast<float>(x);
    quantiles[kCount - 1 - i] = -quantiles[i];
  }
  return quantiles;
}

/// A sequence of normal numbers from the Philox blocks of a key, with 16 bits per number.
class Normals {
 public:
  explicit Normals(std::array<std::uint32_t, 2> key) : key_(key) {}

  float next() {
    if (next_ == kBlockNumbers) refill();
    return numbers_[next_++];
  }

 private:
  static constexpr std::size_t kBlockNumbers = 8;

  void refill() {
    static const std::vector<float> quantiles = normal_quantiles();
    const ir::PhiloxBlock block = ir::philox4x32_10({block_++, 0, 0, 0}, key_);
    for (std::size_t lane = 0; lane < block.size(); ++lane) {
      numbers_[2 * lane] = quantiles[block[lane] & 0xFFFF];
      numbers_[2 * lane + 1] = quantiles[block[lane] >> 16];
    }
    next_ = 0;
  }

  std::array<std::uint32_t, 2> key_;
  std::uint32_t block_ = 0;
  std::array<float, kBlockNumbers> numbers_{};
  std::size_t next_ = kBlockNumbers;
};

class RandomErasing final : public TransformOf<float, float> {
 public:
  RandomErasing(const ir::Attributes& values, const TransformContext& context)
      : shape_(context.image),
        probability_(values.get_double("erase_prob")),
        area_(values.get<ir::Doubles>("erase_area")),
        ratio_(values.get<ir::Doubles>("erase_ratio")) {
    const std::string mode = values.get_string("erase_mode");
    content_ = mode == "const" ? Content::zero : mode == "rand" ? Content::colour : Content::noise;
    const auto check = [](const ir::Doubles& range, std::string_view key) {
      if (range.size() != 2 || range[0] > range[1])
        user_error("transforms.{} takes two numbers, the smaller one first", key);
    };
    check(area_, "erase_area");
    check(ratio_, "erase_ratio");
  }

  ir::Shape shape() const override { return shape_; }

  void apply(std::span<const float> image, std::span<float> out, const SampleRandom& random) const override {
    std::ranges::copy(image, out.begin());
    const std::uint64_t begin = random.sample * kEraseDraws;
    if (random.stream.uniform(begin) >= probability_) return;
    const auto between = [&](std::uint64_t draw, double low, double high) {
      return low + (high - low) * random.stream.uniform(begin + draw);
    };
    const std::int64_t height = shape_[1], width = shape_[2];
    const auto pixels = static_cast<double>(height * width);
    for (std::uint64_t draw = 4; draw < kEraseDraws; draw += 4) {
      const double area = pixels * between(draw, area_[0], area_[1]);
      const double ratio = std::exp(between(draw + 1, std::log(ratio_[0]), std::log(ratio_[1])));
      const auto h = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area * ratio)));
      const auto w = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area / ratio)));
      if (h >= height || w >= width) continue;
      const std::int64_t top = random.below(begin + draw + 2, height - h + 1);
      const std::int64_t left = random.below(begin + draw + 3, width - w + 1);
      erase(out.data() + top * width + left, h, w,
            Normals({random.stream.bits(begin + 1), random.stream.bits(begin + 2)}));
      return;
    }
  }

 private:
  static constexpr std::uint64_t kTries = 10;
  // Draws of a sample: whether to erase, two for the key of the normal numbers, one that is unused; then
  // share, ratio, top and left of each try.
  static constexpr std::uint64_t kEraseDraws = 4 + 4 * kTries;

  /// Erases the box of `h` x `w` whose corner in the first channel is `corner`.
  void erase(float* corner, std::int64_t h, std::int64_t w, Normals normals) const {
    for (std::int64_t channel = 0; channel < shape_[0]; ++channel) {
      const float colour = content_ == Content::colour ? normals.next() : 0.0F;
      for (std::int64_t y = 0; y < h; ++y) {
        float* row = corner + (channel * shape_[1] + y) * shape_[2];
        if (content_ == Content::noise) {
          std::generate(row, row + w, [&] { return normals.next(); });
        } else {
          std::fill(row, row + w, colour);
        }
      }
    }
  }

  ir::Shape shape_;
  double probability_;
  ir::Doubles area_, ratio_;
  Content content_;
};

}  // namespace

extern const TransformRow kRandomErasing{
    "random_erasing",
    "erases a box at a random place",
    {ir::float_parameter(
         "erase_prob", 0,
         "probability that a box of a training image is erased, after normalization; 0: no random erasing")
         .at_least(0)
         .at_most(1),
     ir::enum_parameter("erase_mode", {"const", "rand", "pixel"},
                        "content of the erased box; const: zeros; rand: one normal number per channel; "
                        "pixel: one per pixel"),
     ir::list_parameter("erase_area", {0.02, 1.0 / 3},
                        "smallest and largest share of the image's area in the box")
         .above(0)
         .at_most(1),
     ir::list_parameter("erase_ratio", {0.3, 1 / 0.3},
                        "smallest and largest ratio of the box's height to its width")
         .at_least(0.01)
         .at_most(100)},
    true,
    [](const ir::Attributes& values, const TransformContext& context) -> std::unique_ptr<Transform> {
      if (values.get_double("erase_prob") == 0) return nullptr;
      return std::make_unique<RandomErasing>(values, context);
    }};

}  // namespace rewire::runtime

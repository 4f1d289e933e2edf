// Random brightness, contrast, saturation and hue, in random order, as in torchvision's
// ColorJitter of Pillow's images.
#include <algorithm>
#include <array>
#include <utility>

#include "ir/error.h"
#include "runtime/data/vision/colour_ops.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kJitterOps = 4;  // brightness, contrast, saturation, hue
constexpr std::uint64_t kJitterDraws =
    8;  // of a sample: whether, the order, and from the fifth on the factors
constexpr double kMostStrength = 100;
constexpr double kMostHue = 0.5;  // the opposite hue

class ColorJitter final : public TransformOf<std::uint8_t, std::uint8_t> {
 public:
  ColorJitter(ir::Shape image, const ir::Doubles& strengths, double probability)
      : shape_(std::move(image)), probability_(probability) {
    std::ranges::copy(strengths, strengths_.begin());
    if (strengths_[3] > kMostHue)
      user_error("transforms.color_jitter has a hue of {}; the maximum is {}", strengths_[3], kMostHue);
    if (shape_[0] != 3 && (strengths_[2] > 0 || strengths_[3] > 0)) {
      user_error(
          "transforms.color_jitter changes saturation or hue, which needs images of 3 channels, not {}",
          shape_[0]);
    }
  }

  ir::Shape shape() const override { return shape_; }

  void apply(std::span<const std::uint8_t> image, std::span<std::uint8_t> out,
             const SampleRandom& random) const override {
    std::ranges::copy(image, out.begin());
    const std::uint64_t first = random.sample * kJitterDraws;
    if (random.stream.uniform(first) >= probability_) return;
    std::array<std::size_t, kJitterOps> order = {0, 1, 2, 3};
    for (std::size_t i = kJitterOps - 1; i > 0; --i) {
      const std::int64_t other = random.below(first + kJitterOps - i, static_cast<std::int64_t>(i) + 1);
      std::swap(order[i], order[static_cast<std::size_t>(other)]);
    }
    const Picture picture{out, shape_[0], shape_[1], shape_[2]};
    for (const std::size_t op : order) {
      const double strength = strengths_[op];
      if (strength == 0) continue;
      const double low = op == 3 ? -strength : std::max(0.0, 1 - strength);
      const double high = op == 3 ? strength : 1 + strength;
      change(picture, op,
             static_cast<float>(low + (high - low) * random.stream.uniform(first + kJitterOps + op)));
    }
  }

 private:
  static void change(const Picture& picture, std::size_t op, float factor) {
    switch (op) {
      case 0:
        adjust_brightness(picture, factor);
        break;
      case 1:
        adjust_contrast(picture, factor);
        break;
      case 2:
        adjust_saturation(picture, factor);
        break;
      default:
        adjust_hue(picture, factor);
    }
  }

  ir::Shape shape_;
  std::array<double, kJitterOps> strengths_{};
  double probability_;
};

}  // namespace

extern const TransformRow kColorJitter{
    "color_jitter",
    "changes brightness, contrast, saturation and hue at random, in random order",
    {ir::list_parameter("color_jitter", {},
                        "strengths of brightness, contrast and saturation (factors from 1 - x to 1 + x) and "
                        "hue (at most 0.5), applied in random order; empty: no color jitter")
         .at_least(0)
         .at_most(kMostStrength),
     ir::float_parameter("color_jitter_prob", 1, "share of the training images that are jittered")
         .at_least(0)
         .at_most(1)},
    true,
    [](const ir::Attributes& values, const TransformContext& context) -> std::unique_ptr<Transform> {
      const auto& strengths = values.get<ir::Doubles>("color_jitter");
      if (!strengths.empty() && strengths.size() != kJitterOps) {
        user_error(
            "transforms.color_jitter has {} values; it takes none, or 4: brightness, contrast, "
            "saturation, hue",
            strengths.size());
      }
      const double probability = values.get_double("color_jitter_prob");
      if (probability == 0 || std::ranges::all_of(strengths, [](double x) { return x == 0; })) return nullptr;
      return std::make_unique<ColorJitter>(context.image, strengths, probability);
    }};

}  // namespace rewire::runtime

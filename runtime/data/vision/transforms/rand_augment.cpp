// RandAugment (Cubuk et al., 2020): a few operations of one strength, each drawn from a list. Lists,
// strengths and pixels are those of torchvision's RandAugment, or of timm's `rand-m9-mstd0.5-inc1`.
#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "runtime/data/vision/augment_ops.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kMostOps = 16;
constexpr int kMagnitudeBins = 31;     // of torchvision's magnitudes, 0 to 30
constexpr double kMostLevel = 10;      // of timm's
constexpr std::uint64_t kOpDraws = 8;  // of each operation; timm's magnitude takes a pair of lanes, 4 and 5

enum class AugmentOp : std::uint8_t {
  identity,
  auto_contrast,
  equalize,
  invert,
  rotate,
  posterize,
  solarize,
  solarize_add,
  colour,
  contrast,
  brightness,
  sharpness,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
};

// In the libraries' order.
constexpr AugmentOp kTorchvisionOps[] = {
    AugmentOp::identity,      AugmentOp::shear_x,   AugmentOp::shear_y,    AugmentOp::translate_x,
    AugmentOp::translate_y,   AugmentOp::rotate,    AugmentOp::brightness, AugmentOp::colour,
    AugmentOp::contrast,      AugmentOp::sharpness, AugmentOp::posterize,  AugmentOp::solarize,
    AugmentOp::auto_contrast, AugmentOp::equalize,
};
constexpr AugmentOp kTimmOps[] = {
    AugmentOp::auto_contrast, AugmentOp::equalize,    AugmentOp::invert,       AugmentOp::rotate,
    AugmentOp::posterize,     AugmentOp::solarize,    AugmentOp::solarize_add, AugmentOp::colour,
    AugmentOp::contrast,      AugmentOp::brightness,  AugmentOp::sharpness,    AugmentOp::shear_x,
    AugmentOp::shear_y,       AugmentOp::translate_x, AugmentOp::translate_y,
};

/// Number `bin` of 31 evenly spaced floats from `begin` to `end`.
double spaced(double begin, double end, int bin) {
  const auto first = static_cast<float>(begin), last = static_cast<float>(end);
  const float step = (last - first) / (kMagnitudeBins - 1);
  return bin < kMagnitudeBins / 2 ? first + step * static_cast<float>(bin)
                                  : last - step * static_cast<float>(kMagnitudeBins - 1 - bin);
}

/// Converts torchvision's magnitude to an operation's argument: a shear, pixels, degrees,
/// a factor, bits, a threshold.
double torchvision_argument(AugmentOp op, int bin, double sign, double height, double width) {
  switch (op) {
    case AugmentOp::shear_x:
    case AugmentOp::shear_y:
      return sign * spaced(0, 0.3, bin);
    // Moved to the right and down.
    case AugmentOp::translate_x:
      return -std::trunc(sign * spaced(0, 150.0 / 331.0 * width, bin));
    case AugmentOp::translate_y:
      return -std::trunc(sign * spaced(0, 150.0 / 331.0 * height, bin));
    case AugmentOp::rotate:
      return sign * spaced(0, 30, bin);
    case AugmentOp::brightness:
    case AugmentOp::colour:
    case AugmentOp::contrast:
    case AugmentOp::sharpness:
      return 1 + sign * spaced(0, 0.9, bin);
    case AugmentOp::posterize:
      return 8 - std::nearbyint(bin / ((kMagnitudeBins - 1) / 4.0));
    case AugmentOp::solarize:
      return std::ceil(spaced(255, 0, bin));
    default:
      return 0;
  }
}

/// Does the same for timm's level in [0, 10], with timm's operations that increase with it.
double timm_argument(AugmentOp op, double level, double sign, double height, double width) {
  const double share = level / kMostLevel;
  switch (op) {
    case AugmentOp::rotate:
      return sign * (share * 30);
    case AugmentOp::posterize:
      return 4 - std::trunc(share * 4);
    case AugmentOp::solarize:
      return 256 - std::min(256.0, std::trunc(share * 256));
    case AugmentOp::solarize_add:
      return std::min(128.0, std::trunc(share * 110));
    case AugmentOp::brightness:
    case AugmentOp::colour:
    case AugmentOp::contrast:
    case AugmentOp::sharpness:
      return std::max(0.1, 1 + sign * (share * 0.9));
    case AugmentOp::shear_x:
    case AugmentOp::shear_y:
      return sign * (share * 0.3);
    case AugmentOp::translate_x:
      return sign * (share * 0.45) * width;
    case AugmentOp::translate_y:
      return sign * (share * 0.45) * height;
    default:
      return 0;
  }
}

void apply_augment_op(Picture picture, AugmentOp op, double argument, Interpolation interpolation,
                      std::span<const std::uint8_t> fill) {
  const auto factor = static_cast<float>(argument);
  const auto affine = [&](const AffineMap& map) { apply_affine(picture, map, interpolation, fill); };
  switch (op) {
    case AugmentOp::identity:
      return;
    case AugmentOp::auto_contrast:
      return auto_contrast(picture);
    case AugmentOp::equalize:
      return equalize(picture);
    case AugmentOp::invert:
      return invert(picture);
    case AugmentOp::posterize:
      return posterize(picture, static_cast<int>(argument));
    case AugmentOp::solarize:
      return solarize(picture, static_cast<int>(argument));
    case AugmentOp::solarize_add:
      return solarize_add(picture, static_cast<int>(argument));
    case AugmentOp::colour:
      if (picture.channels == 3) adjust_saturation(picture, factor);
      return;
    case AugmentOp::contrast:
      return adjust_contrast(picture, factor);
    case AugmentOp::brightness:
      return adjust_brightness(picture, factor);
    case AugmentOp::sharpness:
      return adjust_sharpness(picture, factor);
    case AugmentOp::rotate:
      return affine(rotation(argument, picture.height, picture.width));
    case AugmentOp::shear_x:
      return affine({1, argument, 0, 0, 1, 0});
    case AugmentOp::shear_y:
      return affine({1, 0, 0, argument, 1, 0});
    case AugmentOp::translate_x:
      return affine({1, 0, argument, 0, 1, 0});
    case AugmentOp::translate_y:
      return affine({1, 0, 0, 0, 1, argument});
  }
}

class RandAugment final : public TransformOf<std::uint8_t, std::uint8_t> {
 public:
  RandAugment(const ir::Attributes& values, const TransformContext& context)
      : shape_(context.image),
        is_timm_(values.get_string("rand_augment") == "timm"),
        ops_(static_cast<std::uint64_t>(values.get_int("rand_augment_ops"))),
        magnitude_(values.get_double("rand_augment_magnitude")),
        deviation_(values.get_double("rand_augment_mstd")),
        probability_(is_timm_ ? values.get_double("rand_augment_prob") : 1) {
    const std::int64_t channels = shape_[0];
    if (channels != 1 && channels != 3)
      user_error("transforms.rand_augment needs images of 1 or 3 channels; these have {}", channels);
    if (!is_timm_ && magnitude_ != std::trunc(magnitude_)) {
      user_error("transforms.rand_augment_magnitude {} is not one of torchvision's bins, 0 to {}", magnitude_,
                 kMagnitudeBins - 1);
    }
    if (!is_timm_ && deviation_ != 0)
      user_error("transforms.rand_augment_mstd {} has an effect only with rand_augment=timm", deviation_);
    ir::Doubles fill = values.get<ir::Doubles>("rand_augment_fill");
    if (fill.empty()) fill = ir::Doubles{is_timm_ ? 128.0 : 0.0};
    if (fill.size() != 1 && fill.size() != static_cast<std::size_t>(channels)) {
      user_error(
          "transforms.rand_augment_fill has {} values; the images have {} channels: give none, 1 or {}",
          fill.size(), channels, channels);
    }
    for (std::size_t channel = 0; channel < static_cast<std::size_t>(channels); ++channel)
      fill_.push_back(static_cast<std::uint8_t>(fill[fill.size() == 1 ? 0 : channel]));
  }

  ir::Shape shape() const override { return shape_; }

  void apply(std::span<const std::uint8_t> image, std::span<std::uint8_t> out,
             const SampleRandom& random) const override {
    std::ranges::copy(image, out.begin());
    const Picture picture{out, shape_[0], shape_[1], shape_[2]};
    const auto height = static_cast<double>(shape_[1]), width = static_cast<double>(shape_[2]);
    for (std::uint64_t i = 0; i < ops_; ++i) {
      const std::uint64_t first = kOpDraws * (ops_ * random.sample + i);
      const double sign = random.below(first + kSign, 2) == 0 ? 1 : -1;
      if (!is_timm_) {
        const AugmentOp op = kTorchvisionOps[random.below(first + kOp, std::ssize(kTorchvisionOps))];
        apply_augment_op(picture, op,
                         torchvision_argument(op, static_cast<int>(magnitude_), sign, height, width),
                         Interpolation::nearest, fill_);
        continue;
      }
      if (random.stream.uniform(first + kWhether) >= probability_) continue;
      const AugmentOp op = kTimmOps[random.below(first + kOp, std::ssize(kTimmOps))];
      const double level =
          deviation_ == 0 ? magnitude_ : magnitude_ + deviation_ * random.stream.normal(first + kLevel);
      apply_augment_op(
          picture, op, timm_argument(op, std::clamp(level, 0.0, kMostLevel), sign, height, width),
          random.below(first + kInterpolation, 2) == 0 ? Interpolation::bilinear : Interpolation::bicubic,
          fill_);
    }
  }

 private:
  enum Draw : std::uint64_t { kOp = 0, kSign = 1, kWhether = 2, kInterpolation = 3, kLevel = 4 };

  ir::Shape shape_;
  bool is_timm_;
  std::uint64_t ops_;
  double magnitude_, deviation_, probability_;
  std::vector<std::uint8_t> fill_;  // [channels]
};

}  // namespace

extern const TransformRow kRandAugment{
    "rand_augment",
    "applies a few random operations of one strength, from torchvision's list or timm's",
    {ir::enum_parameter("rand_augment", {"none", "torchvision", "timm"},
                        "RandAugment of training images; torchvision, timm: the operations, strengths and "
                        "pixels of that library; none: no RandAugment"),
     ir::int_parameter("rand_augment_ops", 2, "operations per image").at_least(1).at_most(kMostOps),
     ir::float_parameter("rand_augment_magnitude", 9,
                         "strength: torchvision's bin from 0 to 30, or timm's level from 0 to 10")
         .at_least(0)
         .at_most(kMagnitudeBins - 1),
     ir::float_parameter("rand_augment_mstd", 0,
                         "standard deviation of timm's level, drawn for each operation")
         .at_least(0)
         .at_most(100),
     ir::float_parameter("rand_augment_prob", 0.5,
                         "probability of each of timm's operations; torchvision's are always applied")
         .at_least(0)
         .at_most(1),
     ir::list_parameter("rand_augment_fill", {},
                        "value from 0 to 255 of pixels from outside the image, one per channel or one for "
                        "all; empty: 0, with timm 128")
         .at_least(0)
         .at_most(255)},
    true,
    [](const ir::Attributes& values, const TransformContext& context) -> std::unique_ptr<Transform> {
      if (values.get_string("rand_augment") == "none") return nullptr;
      if (context.has_boxes)
        user_error(
            "transforms.rand_augment rotates, shears and shifts images, but not their boxes: set it to none");
      return std::make_unique<RandAugment>(values, context);
    },
    {},
    nullptr,
    {FieldKind::image, FieldKind::boxes}};

}  // namespace rewire::runtime

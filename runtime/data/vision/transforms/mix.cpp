// MixUp (Zhang et al., ICLR 2018) and CutMix (Yun et al., ICCV 2019), drawn once per batch as in timm. Each
// image is paired with the one at the same distance from the batch's end. Its share is lambda from
// Beta(alpha, alpha), the other's 1 - lambda. MixUp blends the two; CutMix copies a box of that share of the
// area. Targets are blended by the same shares.
#include <algorithm>
#include <boost/math/distributions/beta.hpp>
#include <cmath>

#include "ir/error.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

constexpr double kLeastAlpha = 1e-3, kMostAlpha = 1000;  // the quantile is tested between them

/// The quantile of Beta(alpha, alpha) at u.
double beta(double alpha, double u) {
  return boost::math::quantile(boost::math::beta_distribution<double>(alpha, alpha), u);
}

/// Returns alpha: 0, or a number that `beta` takes.
double alpha_of(const ir::Attributes& values, std::string_view key) {
  const double alpha = values.get_double(key);
  if (alpha > 0 && alpha < kLeastAlpha)
    user_error("transforms.{} is {}; it must be 0, or at least {}", key, alpha, kLeastAlpha);
  return alpha;
}

/// Computes first = own first + other last, and last = own last + other first.
void blend(float* first, float* last, std::size_t size, float own, float other) {
  for (std::size_t i = 0; i < size; ++i) {
    const float a = first[i], b = last[i];
    first[i] = a * own + b * other;
    last[i] = b * own + a * other;
  }
}

class Mix final : public BatchTransform {
 public:
  Mix(const ir::Attributes& values, ir::Shape image)
      : mixup_(alpha_of(values, "mixup")),
        cutmix_(alpha_of(values, "cutmix")),
        probability_(values.get_double("mix_prob")),
        switch_(values.get_double("mix_switch_prob")),
        image_(std::move(image)) {}

  void run(std::span<float> images, std::span<float> targets, std::int64_t batch,
           const SampleRandom& random) const override {
    const auto draw = [&](Draw which) { return random.stream.uniform(random.sample * kDraws + which); };
    if (draw(kWhether) >= probability_) return;
    const bool cuts = cutmix_ > 0 && (mixup_ == 0 || draw(kWhich) < switch_);
    double lambda = beta(cuts ? cutmix_ : mixup_, draw(kLambda));
    const auto count = static_cast<std::size_t>(batch);
    const std::size_t image = images.size() / count, classes = targets.size() / count;
    Box box;
    if (cuts) {
      box = box_of(1 - lambda, random);
      lambda = 1 - static_cast<double>(box.height * box.width) / static_cast<double>(image_[1] * image_[2]);
    }
    const auto own = static_cast<float>(lambda), other = static_cast<float>(1 - lambda);
    for (std::size_t i = 0; i < (count + 1) / 2; ++i) {
      float* first = images.data() + i * image;
      float* last = images.data() + (count - 1 - i) * image;
      if (cuts) {
        exchange(first, last, box);
      } else {
        blend(first, last, image, own, other);
      }
      blend(targets.data() + i * classes, targets.data() + (count - 1 - i) * classes, classes, own, other);
    }
  }

 private:
  enum Draw : std::uint64_t { kWhether, kWhich, kLambda, kRow, kColumn, kDraws };

  /// Returns a box of that share of the area. Its middle is anywhere in the image;
  /// what lies outside is cut off.
  Box box_of(double share, const SampleRandom& random) const {
    const double side = std::sqrt(share);
    const auto span = [&](std::int64_t extent, Draw which) {
      const auto whole = static_cast<std::int64_t>(static_cast<double>(extent) * side);
      const std::int64_t middle = random.below(random.sample * kDraws + which, extent);
      return std::pair(std::max<std::int64_t>(middle - whole / 2, 0),
                       std::min(middle + (whole + 1) / 2, extent));
    };
    const auto [top, bottom] = span(image_[1], kRow);
    const auto [left, right] = span(image_[2], kColumn);
    return {top, left, bottom - top, right - left};
  }

  /// Exchanges the box between two images. The middle image of an odd batch is paired with itself.
  void exchange(float* first, float* last, const Box& box) const {
    if (first == last) return;
    for (std::int64_t channel = 0; channel < image_[0]; ++channel) {
      for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
        const std::int64_t at = (channel * image_[1] + y) * image_[2] + box.left;
        std::swap_ranges(first + at, first + at + box.width, last + at);
      }
    }
  }

  double mixup_, cutmix_, probability_, switch_;
  ir::Shape image_;
};

}  // namespace

extern const TransformRow kMix{
    "mix",
    "MixUp and CutMix: blends images of a batch, or copies boxes between them, and blends their targets",
    {ir::float_parameter("mixup", 0, "MixUp: alpha of the Beta distribution of the share; 0: no MixUp")
         .at_least(0)
         .at_most(kMostAlpha),
     ir::float_parameter("cutmix", 0, "CutMix: alpha of the Beta distribution of the share; 0: no CutMix")
         .at_least(0)
         .at_most(kMostAlpha),
     ir::float_parameter("mix_prob", 1, "share of the training batches that are mixed")
         .at_least(0)
         .at_most(1),
     ir::float_parameter("mix_switch_prob", 0.5, "share of CutMix among mixed batches, where both are on")
         .at_least(0)
         .at_most(1)},
    true,
    nullptr,
    {},
    [](const ir::Attributes& values, const ir::Shape& image) -> std::unique_ptr<BatchTransform> {
      if (values.get_double("mixup") == 0 && values.get_double("cutmix") == 0) return nullptr;
      return std::make_unique<Mix>(values, image);
    }};

}  // namespace rewire::runtime

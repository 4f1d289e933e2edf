// Random Gaussian blur, as Pillow's GaussianBlur.
#include <algorithm>

#include "ir/error.h"
#include "runtime/data/vision/colour_ops.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

constexpr std::uint64_t kBlurDraws = 2;  // of a sample: whether, the deviation
constexpr double kMostSigma = 100;       // pixels; the time grows with it

class GaussianBlur final : public TransformOf<std::uint8_t, std::uint8_t> {
 public:
  GaussianBlur(ir::Shape image, const ir::Doubles& sigmas, double probability)
      : shape_(std::move(image)), probability_(probability) {
    if (sigmas.size() != 2 || sigmas[0] > sigmas[1])
      user_error("transforms.blur_sigma takes two numbers, the smaller one first");
    least_ = sigmas[0];
    most_ = sigmas[1];
  }

  ir::Shape shape() const override { return shape_; }

  void apply(std::span<const std::uint8_t> image, std::span<std::uint8_t> out,
             const SampleRandom& random) const override {
    std::ranges::copy(image, out.begin());
    const std::uint64_t first = random.sample * kBlurDraws;
    if (random.stream.uniform(first) >= probability_) return;
    const double sigma = least_ + (most_ - least_) * random.stream.uniform(first + 1);
    gaussian_blur({out, shape_[0], shape_[1], shape_[2]}, sigma);
  }

 private:
  ir::Shape shape_;
  double probability_, least_ = 0, most_ = 0;
};

}  // namespace

extern const TransformRow kGaussianBlur{
    "gaussian_blur",
    "blurs some images",
    {ir::float_parameter("blur_prob", 0, "share of the training images that are blurred")
         .at_least(0)
         .at_most(1),
     ir::list_parameter("blur_sigma", {0.1, 2},
                        "smallest and largest standard deviation of the Gaussian, in pixels")
         .at_least(0)
         .at_most(kMostSigma)},
    true,
    [](const ir::Attributes& values, const TransformContext& context) -> std::unique_ptr<Transform> {
      const double probability = values.get_double("blur_prob");
      if (probability == 0) return nullptr;
      return std::make_unique<GaussianBlur>(context.image, values.get<ir::Doubles>("blur_sigma"),
                                            probability);
    }};

}  // namespace rewire::runtime

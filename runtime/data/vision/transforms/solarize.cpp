// Random solarization: bright pixels are inverted, as torchvision's RandomSolarize of Pillow's images.
#include <algorithm>

#include "runtime/data/vision/colour_ops.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

class Solarize final : public TransformOf<std::uint8_t, std::uint8_t> {
 public:
  Solarize(ir::Shape image, int threshold, double probability)
      : shape_(std::move(image)), threshold_(threshold), probability_(probability) {}

  ir::Shape shape() const override { return shape_; }

  void apply(std::span<const std::uint8_t> image, std::span<std::uint8_t> out,
             const SampleRandom& random) const override {
    std::ranges::copy(image, out.begin());
    if (random.stream.uniform(random.sample) < probability_)
      solarize({out, shape_[0], shape_[1], shape_[2]}, threshold_);
  }

 private:
  ir::Shape shape_;
  int threshold_;
  double probability_;
};

}  // namespace

extern const TransformRow kSolarize{
    "solarize",
    "inverts the bright pixels of some images",
    {ir::float_parameter("solarize_prob", 0, "share of the training images that are solarized")
         .at_least(0)
         .at_most(1),
     ir::int_parameter("solarize_threshold", 128, "pixels of at least this value become 255 - pixel")
         .at_least(0)
         .at_most(255)},
    true,
    [](const ir::Attributes& values, const TransformContext& context) -> std::unique_ptr<Transform> {
      const double probability = values.get_double("solarize_prob");
      if (probability == 0) return nullptr;
      return std::make_unique<Solarize>(context.image, static_cast<int>(values.get_int("solarize_threshold")),
                                        probability);
    }};

}  // namespace rewire::runtime

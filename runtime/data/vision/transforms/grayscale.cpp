// Random grey: the luma in all three channels, as torchvision's RandomGrayscale of Pillow's images.
#include <algorithm>

#include "ir/error.h"
#include "runtime/data/vision/colour_ops.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

class Grayscale final : public TransformOf<std::uint8_t, std::uint8_t> {
 public:
  Grayscale(ir::Shape image, double probability) : shape_(std::move(image)), probability_(probability) {
    if (shape_[0] != 3)
      user_error("transforms.grayscale_prob needs images of 3 channels; these have {}", shape_[0]);
  }

  ir::Shape shape() const override { return shape_; }

  void apply(std::span<const std::uint8_t> image, std::span<std::uint8_t> out,
             const SampleRandom& random) const override {
    std::ranges::copy(image, out.begin());
    if (random.stream.uniform(random.sample) < probability_) to_grey({out, shape_[0], shape_[1], shape_[2]});
  }

 private:
  ir::Shape shape_;
  double probability_;
};

}  // namespace

extern const TransformRow kGrayscale{
    "grayscale",
    "turns some images grey",
    {ir::float_parameter("grayscale_prob", 0, "share of the training images that become grey")
         .at_least(0)
         .at_most(1)},
    true,
    [](const ir::Attributes& values, const TransformContext& context) -> std::unique_ptr<Transform> {
      const double probability = values.get_double("grayscale_prob");
      if (probability == 0) return nullptr;
      return std::make_unique<Grayscale>(context.image, probability);
    }};

}  // namespace rewire::runtime

// (pixel / 255 - mean) / std in double, rounded once. A table of 256 floats per channel converts the bytes.
#include <cmath>

#include "ir/error.h"
#include "ir/tensor.h"
#include "runtime/data/vision/transform.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kByteValues = 256;

double of_channel(const ir::Doubles& values, std::string_view key, std::int64_t channel,
                  std::int64_t channels) {
  if (values.size() != 1 && values.size() != static_cast<std::size_t>(channels)) {
    user_error("transforms.{} has {} values; the images have {} channels: give 1 or {}", key, values.size(),
               channels, channels);
  }
  return values[values.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
}

class Normalize final : public TransformOf<std::uint8_t, float> {
 public:
  Normalize(ir::Shape image, const ir::Doubles& means, const ir::Doubles& deviations)
      : shape_(std::move(image)) {
    for (std::int64_t channel = 0; channel < shape_[0]; ++channel) {
      const double mean = of_channel(means, "mean", channel, shape_[0]);
      const double deviation = of_channel(deviations, "std", channel, shape_[0]);
      for (std::size_t byte = 0; byte < kByteValues; ++byte) {
        const double pixel = (static_cast<double>(byte) / 255.0 - mean) / deviation;
        if (!std::isfinite(ir::round_to(ir::DType::f32, pixel))) {
          user_error(
              "transforms.mean {} and transforms.std {} give {:.3g} for a pixel of {}/255: f32 cannot hold "
              "it",
              mean, deviation, pixel, byte);
        }
        floats_.push_back(static_cast<float>(pixel));
      }
    }
  }

  ir::Shape shape() const override { return shape_; }
  std::span<const float> byte_values() const override { return floats_; }

  void apply(std::span<const std::uint8_t> image, std::span<float> out, const SampleRandom&) const override {
    const std::int64_t size = shape_[1] * shape_[2];
    for (std::int64_t channel = 0; channel < shape_[0]; ++channel)
      look_up(floats_.data() + channel * std::int64_t{kByteValues}, image.data() + channel * size,
              out.data() + channel * size, size);
  }

 private:
  /// Without __restrict, which excludes an overlap, each store would delay the
  /// loads after it: twice the time.
  static void look_up(const float* __restrict table, const std::uint8_t* __restrict pixels,
                      float* __restrict out, std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) out[i] = table[pixels[i]];
  }

  ir::Shape shape_;
  std::vector<float> floats_;  // [channels, 256]: the float of each byte
};

}  // namespace

extern const TransformRow kNormalize{
    "normalize",
    "converts bytes to floats: (pixel / 255 - mean) / std",
    {ir::list_parameter("mean", {0},
                        "mean subtracted from pixels in [0, 1]; one value per channel, or one for all"),
     ir::list_parameter("std", {1},
                        "standard deviation that divides the result; one value per channel, or one for all")
         .above(0)},
    false,
    [](const ir::Attributes& values, const TransformContext& context) -> std::unique_ptr<Transform> {
      return std::make_unique<Normalize>(context.image, values.get<ir::Doubles>("mean"),
                                         values.get<ir::Doubles>("std"));
    }};

}  // namespace rewire::runtime

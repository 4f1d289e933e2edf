// From stored bytes to the floats a network sees: random crop with padding, horizontal flip, normalisation,
// in this order (as torchvision composes them). The random draws of a sample are a function of (seed, epoch,
// sample index) alone, so that neither threads nor a resumed run change them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rewire::runtime {

/// Pixels a side; no image of ours is larger.
inline constexpr std::int64_t kMostCropPadding = 16384;

enum class CropFill {
  zero,    // black pixels
  reflect  // the image mirrored at its edge, the edge itself not repeated
};

struct TransformOptions {
  /// Of pixels scaled to [0, 1]: out = (pixel / 255 - mean) / deviation. One value a channel, or one for all.
  std::vector<double> mean{0};
  std::vector<double> deviation{1};
  /// Training only: pad by so many pixels a side, then cut the image's own size out at a random place.
  std::int64_t crop_padding = 0;
  CropFill crop_fill = CropFill::zero;
  /// Training only: mirror left to right, one time in two.
  bool horizontal_flip = false;
};

/// What chance decides for one sample: the crop's offset, each in [-crop_padding, crop_padding], and the
/// flip.
struct Augmentation {
  std::int64_t dy = 0;
  std::int64_t dx = 0;
  bool flip = false;
};

class Transform {
 public:
  /// UserError naming the option: a count of means or deviations that is neither 1 nor `channels`, a
  /// deviation that is not > 0, both so far apart that a pixel overflows f32, a padding below 0 or above
  /// kMostCropPadding, a reflecting padding as large as the image.
  Transform(const TransformOptions& options, std::int64_t channels, std::int64_t height, std::int64_t width);

  Augmentation draw(std::uint64_t seed, std::int64_t epoch, std::int64_t sample) const;

  /// `pixels` and `image` are [channels, height, width]. The default augmentation is none: evaluation's view.
  void apply(std::span<const std::uint8_t> pixels, std::span<float> image,
             const Augmentation& augmentation = {}) const;

 private:
  /// Which source row or column stands at each place of the output; kFill where the padding does.
  std::vector<std::int32_t> sources(std::int64_t extent, std::int64_t offset, bool mirrored) const;

  static constexpr std::int32_t kFill = -1;
  std::int64_t channels_, height_, width_;
  std::int64_t crop_padding_;
  CropFill crop_fill_;
  bool horizontal_flip_;
  std::vector<float> normalised_;  // [channels, 256]: the float of each byte
};

}  // namespace rewire::runtime

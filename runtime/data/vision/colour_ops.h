// What changes the colours of an image in place, as Pillow does it: the same bytes for the same factors. Inner loops
// are of integers and of floats rounded after each step, so that every processor makes the same.
#pragma once

#include <cstdint>
#include <span>

namespace rewire::runtime {

/// u8 [channels, height, width]: red, green and blue where there are three channels.
struct Picture {
  std::span<std::uint8_t> pixels;
  std::int64_t channels = 0, height = 0, width = 0;
};

/// ITU-R 601-2 luma, in 16 fraction bits.
inline std::uint8_t luma(int red, int green, int blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

/// The image at factor 1; at 0 black, one grey (the rounded mean of the luma, or of all pixels where there are not
/// three channels) or the luma; between and beyond, the line through both.
void adjust_brightness(Picture picture, float factor);
void adjust_contrast(Picture picture, float factor);
void adjust_saturation(Picture picture, float factor);
/// `factor` in [-0.5, 0.5] of the circle of hues. It and saturation leave images of other than three channels as
/// they are, and so does to_grey().
void adjust_hue(Picture picture, float factor);
/// The luma in all channels.
void to_grey(Picture picture);
/// Pixels of `threshold` and above become 255 - pixel.
void solarize(Picture picture, int threshold);
/// Three passes of a box of fractional width along rows, then along columns, each rounded to bytes.
void gaussian_blur(Picture picture, double sigma);

}  // namespace rewire::runtime

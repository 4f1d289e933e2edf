// Changes the colours of an image in place, with Pillow's bytes for the same factors. Inner loops use
// integers, or floats rounded after each step, so that every processor gives the same result.
#pragma once

#include <cstdint>
#include <span>

namespace rewire::runtime {

/// An image u8 [channels, height, width]; three channels are red, green and blue.
struct Picture {
  std::span<std::uint8_t> pixels;
  std::int64_t channels = 0, height = 0, width = 0;
};

/// Returns the ITU-R 601-2 luma, in 16 fraction bits.
inline std::uint8_t luma(int red, int green, int blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

/// Moves pixels along the line from a base at factor 0 through the image at 1. The base is black for
/// brightness, one grey for contrast (the rounded mean of the luma, or of all pixels unless there are three
/// channels), else the luma.
void adjust_brightness(Picture picture, float factor);
void adjust_contrast(Picture picture, float factor);
void adjust_saturation(Picture picture, float factor);
/// Turns hues by `factor` in [-0.5, 0.5] of their circle. Like adjust_saturation() and to_grey(), it changes
/// only images of three channels.
void adjust_hue(Picture picture, float factor);
/// Writes the luma to all channels.
void to_grey(Picture picture);
/// Replaces pixels of `threshold` and above by 255 - pixel.
void solarize(Picture picture, int threshold);
/// Blurs by three passes of a box of fractional width along rows, then along columns, each rounded to bytes.
void gaussian_blur(Picture picture, double sigma);

}  // namespace rewire::runtime

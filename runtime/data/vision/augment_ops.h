// Random augmentation of images in bytes, as in Pillow: tones, sharpness and affine maps. Affine maps may
// differ from Pillow's by one level through rounding. All work in place, with the same bytes on each kind of
// processor.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "runtime/data/vision/colour_ops.h"

namespace rewire::runtime {

/// Keeps the first `bits` bits of each byte; 0: black.
void posterize(Picture picture, int bits);
/// Adds `amount` to bytes below 128, up to 255.
void solarize_add(Picture picture, int amount);
void invert(Picture picture);
/// Stretches each channel from its least and greatest byte to 0 and 255.
void auto_contrast(Picture picture);
/// Flattens each channel's histogram.
void equalize(Picture picture);
/// Blends with a smoothed copy: factor 0 gives the copy, 1 the picture; more is sharper.
void adjust_sharpness(Picture picture, float factor);

enum class Interpolation : std::uint8_t { nearest, bilinear, bicubic };  // Keys' cubic with a = -1

/// Maps a pixel to its source: (x, y) comes from (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]). Pixels
/// have their centres at halves.
using AffineMap = std::array<double, 6>;
/// Returns a counter-clockwise rotation about the centre.
AffineMap rotation(double degrees, std::int64_t height, std::int64_t width);
/// Applies a map; pixels from outside are `fill`, one value per channel.
void apply_affine(Picture picture, const AffineMap& map, Interpolation interpolation,
                  std::span<const std::uint8_t> fill);

}  // namespace rewire::runtime

// What random augmentation does to images in bytes, as Pillow does it: tones, sharpness, and affine maps, which may
// differ from Pillow's by one level where it rounds. In place; each kind of processor gives the same bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "runtime/data/vision/colour_ops.h"

namespace rewire::runtime {

/// The first `bits` bits of each byte; 0: black.
void posterize(Picture picture, int bits);
/// Adds to what is below 128, at most to 255.
void solarize_add(Picture picture, int amount);
void invert(Picture picture);
/// Each channel stretched from its least and greatest byte to 0 and 255.
void auto_contrast(Picture picture);
/// Each channel's histogram made flat.
void equalize(Picture picture);
/// Blended with a smoothed copy: factor 0 is that, 1 the picture, beyond it is sharper.
void adjust_sharpness(Picture picture, float factor);

enum class Interpolation : std::uint8_t { nearest, bilinear, bicubic };  // Keys' cubic with a = -1

/// What stands at (x, y) was at (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]); pixels have their middles at halves.
using AffineMap = std::array<double, 6>;
/// Counter-clockwise about the middle.
AffineMap rotation(double degrees, std::int64_t height, std::int64_t width);
/// What comes from outside is `fill`, one value a channel.
void apply_affine(Picture picture, const AffineMap& map, Interpolation interpolation,
                  std::span<const std::uint8_t> fill);

}  // namespace rewire::runtime

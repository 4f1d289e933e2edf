// Scales images as Pillow does: a filter as wide as the source pixels that a result pixel covers
// (antialiased when it shrinks), along rows, then along columns, each rounded to bytes, with 22 bits of
// fraction. Nothing is random or depends on the machine: the bytes are the same everywhere.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/data/vision/box.h"

namespace rewire::runtime {

enum class Filter : std::uint8_t { bilinear, bicubic };  // a triangle; Keys' cubic with a = -1/2

/// A part of a scaled image: `source` is cut out of the image and scaled to [height, width]; `window` of
/// that is computed.
struct Frame {
  Box source;
  std::int64_t height = 0, width = 0;
  Box window;
};

/// Returns the part of the image that `resample` reads.
Box looked_at(const Frame& frame, Filter filter);

/// Scales `image`, u8 [channels, rows, columns], to `out`, u8 [channels, window.height, window.width]. Boxes
/// lie inside.
void resample(std::span<const std::uint8_t> image, std::int64_t rows, std::int64_t columns,
              const Frame& frame, Filter filter, std::span<std::uint8_t> out);

}  // namespace rewire::runtime

// Images at another size, as Pillow makes them: a filter as wide as the source pixels that a result's pixel covers
// (antialiased when it shrinks), along rows, then along columns, rounded to bytes after each; 22 bits of fraction.
// Nothing here is drawn and nothing depends on the machine: the same bytes everywhere.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/data/vision/box.h"

namespace rewire::runtime {

enum class Filter : std::uint8_t { bilinear, bicubic };  // a triangle; Keys' cubic with a = -1/2

/// Which part of which scaling of an image is wanted: `source` is cut out of the image, scaled to
/// [height, width], and of that `window` is made.
struct Frame {
  Box source;
  std::int64_t height = 0, width = 0;
  Box window;
};

/// The pixels of the image that `resample` reads.
Box looked_at(const Frame& frame, Filter filter);

/// `image` is u8 [channels, rows, columns], `out` u8 [channels, window.height, window.width]. The boxes lie inside.
void resample(std::span<const std::uint8_t> image, std::int64_t rows, std::int64_t columns,
              const Frame& frame, Filter filter, std::span<std::uint8_t> out);

}  // namespace rewire::runtime

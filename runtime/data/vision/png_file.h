// Writes pixels as a PNG file by libpng, for people to look at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rewire::runtime {

/// An image that owns its pixels: u8 [channels, height, width], channels 1 or 3.
struct DrawnImage {
  std::int64_t channels = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};

/// Encodes pixels alone, without a time: the same pixels give the same bytes.
std::vector<std::byte> encode_png(const DrawnImage& image);

}  // namespace rewire::runtime

// Where the elements of a tile stand in shared memory, so that a warp that fills it in one order and reads it
// in another meets each bank once, as far as padding allows.
#pragma once

#include <cstdint>
#include <vector>

namespace rewire::codegen::cuda {

/// The points of a tile, one after the other, and how many of them a thread takes at once. Bounds and
/// addresses hold for all of these or none.
struct TileWalk {
  std::vector<std::int32_t> order;  // axes of more than one point of the tile, the fastest first
  int packet = 1;

  bool operator==(const TileWalk&) const = default;
};

struct PaddedTile {
  std::vector<std::int64_t> strides;  // by axis
  std::int64_t elements = 0;          // with the padding
};

/// A tile of `sizes` points along each axis, elements of so many bytes. It lies in the order of `points`, and
/// is walked by these and by `memory`, the same axes in another order: an element of a packet after the
/// other, by all threads of a warp at once.
PaddedTile padded_tile(const std::vector<int>& sizes, const TileWalk& points, const TileWalk& memory,
                       std::int64_t bytes);

}  // namespace rewire::codegen::cuda

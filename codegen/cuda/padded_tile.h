// Lays out a tile in shared memory, so that a warp that fills it in one order and reads it in another
// accesses each bank once, as far as padding allows.
#pragma once

#include <cstdint>
#include <vector>

namespace rewire::codegen::cuda {

/// The order in which a tile's points are walked, and how many points (a packet) a thread takes at once.
/// Bounds and addresses hold for a whole packet or for none of it.
struct TileWalk {
  std::vector<std::int32_t> order;  // axes along which the tile has more than one point, the fastest first
  int packet = 1;

  bool operator==(const TileWalk&) const = default;
};

struct PaddedTile {
  std::vector<std::int64_t> strides;  // by axis
  std::int64_t elements = 0;          // with the padding
};

/// Returns the layout of a tile of `sizes` points along each axis, with elements of `bytes` bytes. It lies
/// in the order of `points`, and is walked in that order and in the order of `memory`, the same axes in
/// another order. All threads of a warp access one element of their packets at a time.
PaddedTile padded_tile(const std::vector<int>& sizes, const TileWalk& points, const TileWalk& memory,
                       std::int64_t bytes);

}  // namespace rewire::codegen::cuda

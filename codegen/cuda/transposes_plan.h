// How a kernel that only moves or transforms elements becomes threads where memory is read along one axis and
// written along another: a block computes a tile, a box of points that is long along both. Each access of
// device memory walks the tile along its own neighbours. One access says in which order points are computed;
// those that would be strided in that order go through shared memory, loads before, stores behind.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/padded_tile.h"
#include "codegen/cuda/sectors.h"
#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

/// An access of device memory: `walk.packet` neighbours at once, in the order of its own neighbours where it
/// is staged in shared memory, else in that of the points, where more than one means that all of a thread's
/// points are neighbours.
struct TileAccess {
  const tile::Node* node = nullptr;  // a load or a store
  TileWalk walk;
  bool staged = false;
  std::vector<std::int64_t> strides;   // of the array in shared memory, by axis of the kernel
  std::int64_t offset = 0, bytes = 0;  // of the array
};

/// The numbers of its schedule, and what follows from the kernel.
struct TransposePlan : TransposeSchedule {
  TileWalk walk;  // of the points that are computed
  std::vector<TileAccess> accesses;
  std::vector<std::int64_t> tiles;  // along each axis
  std::int64_t blocks = 1, shared_bytes = 0;
  Traffic traffic, row_traffic;  // in this form, and in that of rows
  std::int64_t cost = 0;         // of its traffic, and what shared memory adds to that

  const TileAccess& access(const tile::Node& node) const;
  std::int64_t points(const TileWalk& walk) const;
  /// Whether tiles at the end of an axis have fewer points.
  bool is_short(const tile::Kernel& kernel, std::int32_t axis) const;
};

/// By value: whether it differs among the points of a tile.
std::vector<bool> varying_values(const tile::Kernel& kernel, const std::vector<int>& tile);

/// By the cost model: nullopt where the form of rows touches no or few sectors more. Or with this schedule:
/// nullopt where it is not for the kernel.
std::optional<TransposePlan> plan_transpose(const tile::Kernel& kernel, const DeviceTarget& target,
                                            const TransposeSchedule* schedule = nullptr);
/// The cost model's, and after it those that may be faster, `most` in all; none where plan_transpose() has
/// none.
std::vector<TransposeSchedule> transpose_schedules(const tile::Kernel& kernel, const DeviceTarget& target,
                                                   std::size_t most);

}  // namespace rewire::codegen::cuda

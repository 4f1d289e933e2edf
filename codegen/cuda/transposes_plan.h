// Maps a kernel that only moves or transforms elements to threads, where memory is read along one axis and
// written along another. A block computes a tile, a box of points that is long along both. Each access of
// device memory walks the tile along its own neighbours. One access sets the order in which points are
// computed. Accesses that would be strided in that order go through shared memory: loads before, stores
// after.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/padded_tile.h"
#include "codegen/cuda/sectors.h"
#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

/// An access of device memory, which takes `walk.packet` neighbours at once. If it is staged in shared
/// memory, it walks along its own neighbours, else in the order of the points. There, more than one at once
/// means that all of a thread's points are neighbours.
struct TileAccess {
  const tile::Node* node = nullptr;  // a load or a store
  TileWalk walk;
  bool staged = false;
  std::vector<std::int64_t> strides;   // of the array in shared memory, by axis of the kernel
  std::int64_t offset = 0, bytes = 0;  // of the array
};

/// The numbers of the schedule, and what follows from the kernel.
struct TransposePlan : TransposeSchedule {
  TileWalk walk;  // of the points that are computed
  std::vector<TileAccess> accesses;
  std::vector<std::int64_t> tiles;  // how many along each axis
  std::int64_t blocks = 1, shared_bytes = 0;
  Traffic traffic, row_traffic;  // in this form, and in the form of rows
  std::int64_t cost = 0;         // of its traffic, and of shared memory

  const TileAccess& access(const tile::Node& node) const;
  std::int64_t points(const TileWalk& walk) const;
  /// Returns whether tiles at the end of an axis have fewer points.
  bool is_short(const tile::Kernel& kernel, std::int32_t axis) const;
};

/// Returns, by value, whether it differs among the points of a tile.
std::vector<bool> varying_values(const tile::Kernel& kernel, const std::vector<int>& tile);

/// Plans by the cost model; nullopt if the form of rows touches few or no sectors more. Or plans with the
/// given schedule; nullopt if it does not fit the kernel.
std::optional<TransposePlan> plan_transpose(const tile::Kernel& kernel, const DeviceTarget& target,
                                            const TransposeSchedule* schedule = nullptr);
/// Returns the cost model's schedule, then others that may be faster, `most` in all. Empty where
/// plan_transpose() returns nullopt.
std::vector<TransposeSchedule> transpose_schedules(const tile::Kernel& kernel, const DeviceTarget& target,
                                                   std::size_t most);

}  // namespace rewire::codegen::cuda

// Maps a kernel that walks tiles with products on tensor cores to warps: attention over tiles of keys
// (codegen/tile/attention_walks.h). All products of such a kernel have the same lane as rows. A warp has 16 rows,
// and keeps all that has rows in registers, from row to row of the walk too:
//
//   per row          (a maximum, a sum)            2 elements of a thread
//   rows x columns   (scores, carried products)    the elements of mma.sync's result
//
// Left operands are loaded once, and stay in registers or shared memory, or they are a product's own elements.
// Right operands are tiles that the walk loads. Two of each are in shared memory: the next is copied while one is
// multiplied, with one barrier between. Channels that 16 does not divide are padded with zeros there.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

/// A loaded value in shared memory, as bf16 [rows, pitch], or of a walked value with one lane as it is [rows].
struct WalkTile {
  const tile::Load* load = nullptr;
  bool walked = false;  // one for each of two tiles of the walk; false: once, for all rows of the block
  std::int32_t down = -1, across = -1;            // its lanes; across: -1 for a value with one lane
  std::int64_t rows = 1, columns = 0, pitch = 0;  // columns: 0 for a value with one lane
  std::int64_t offset = 0;                        // walked: from the beginning of the two
  std::int64_t padded() const { return (columns + 15) / 16 * 16; }
};

struct WalkPlan {
  std::int32_t rows = -1;  // the lane of which a warp has 16 points
  std::vector<WalkTile> tiles;
  std::set<std::int32_t> exact;  // values rounded to bf16 that only products read, which round them anyway
  bool held = false;             // left operands that are loaded stay in registers
  std::int64_t stage_bytes = 0;  // of one tile of everything that is walked
  std::int64_t stages_at =
      0;  // of the first of two in shared memory; held operands come in through the second
  std::int64_t shared_bytes = 0;
  int threads = 32, resident_blocks = 1;

  const WalkTile* tile_of(tile::TileValue value) const;
};

/// Plans by the registers that a thread needs, or with the given schedule. Returns nullopt if the kernel has
/// another form, or the target has too little shared memory, or the schedule does not fit.
std::optional<WalkPlan> plan_walk(const tile::Kernel& kernel, const DeviceTarget& target,
                                  const BlockSchedule* schedule = nullptr);
/// Returns the cost model's schedule, then others. Empty where plan_walk() returns nullopt.
std::vector<BlockSchedule> walk_schedules(const tile::Kernel& kernel, const DeviceTarget& target,
                                          std::size_t most);

}  // namespace rewire::codegen::cuda

// Chooses the schedules of a block kernel (blocks_plan.h) from a few facts about it, without the kernel
// itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codegen/cuda/blocks_plan.h"
#include "codegen/cuda/blocks_steps.h"
#include "codegen/cuda/schedule.h"

namespace rewire::codegen::cuda {

struct BlockFacts {
  std::vector<ProductFacts> products;       // of the steps on tensor cores, in order
  std::int64_t shared_bytes = 0;            // of a block
  std::int64_t shared_bytes_per_block = 0;  // the most that the target allows
  std::int64_t points = 1;                  // of the step that has most
  bool has_dots = false;                    // a step computes products without tensor cores
  int warps = 0;                            // DeviceTarget::block_warps
};

BlockFacts block_facts(const tile::Kernel& kernel, const BlockPlan& plan, const DeviceTarget& target);

/// Returns the schedule of the facts' number of warps, if it fits, else the cost model's.
BlockSchedule modelled_block(const BlockFacts& facts);
/// Returns the cost model's schedule, then others that may be faster: at most `most` in all.
std::vector<BlockSchedule> block_schedules(const BlockFacts& facts, std::size_t most);
/// Returns whether a kernel can be written with the schedule. A recorded one may be another kernel's.
bool fits(const BlockFacts& facts, const BlockSchedule& schedule);
/// Returns whether a block has the warps and registers for its products. Without windows
/// (blocks_windows.h) it always has.
bool can_walk(const BlockFacts& facts);
/// Returns whether a warp keeps the rows of the products' left operands in registers. It does if shared
/// memory has room for one block alone, and the block's threads leave registers for them.
bool holds_rows(const BlockFacts& facts, const ProductFacts& product, std::int64_t warps);

}  // namespace rewire::codegen::cuda

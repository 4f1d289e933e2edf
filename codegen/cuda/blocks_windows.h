// Two products on tensor cores that walk an axis together, in windows. The second sums over the rows of the
// first, and the axis is the columns of the first and the rows of the second. Without windows all that the
// first computes for the second is in shared memory at once: in attention's gradient ds, queries x keys, for
// dq. In windows it is ds for a few queries at once:
//
//   for each window of queries
//     first step    s, dp, ds for the warp's own keys; ds to shared memory; dk and dv added up in registers
//     barrier
//     second step   dq of these queries, all warps together
//     barrier
//
// Loads along the axis that only the first step multiplies are also in windows. The next window is copied
// while one is multiplied. Each warp has 16 rows of the first step, and keeps its sums in registers from
// window to window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "codegen/cuda/blocks_plan.h"

namespace rewire::codegen::cuda {

struct Windows {
  std::size_t step = 0;           // the first step; the second is the next one
  std::set<std::int32_t> arrays;  // values that are in shared memory a window at a time
};

/// Returns two steps among the first `count` that can walk in windows, or nullopt.
std::optional<Windows> find_windows(const tile::Kernel& kernel, const std::vector<BlockStep>& steps,
                                    int count);

}  // namespace rewire::codegen::cuda

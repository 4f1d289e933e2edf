// Maps a row kernel to threads. In a row kernel all lanes together are one row: every reduction runs over
// all lanes and leaves a scalar, there are no dots, and a value with fewer lanes is broadcast to the
// others. A group of threads shares a row, and each thread holds a few elements of the row in registers. A
// block has several groups, each with rows of its own. blocks_plan.h maps all other kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/rows_levels.h"
#include "codegen/cuda/schedule.h"
#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

/// The schedule, the levels, and the facts about the kernel that its text depends on.
struct RowsPlan : RowsSchedule, RowLevels {
  std::vector<std::int32_t> lane_axes;
  std::int64_t lanes = 1;
  bool by_partition = false;  // each block walks one partition; false: rows are independent

  // The blocks along the lanes and along the rows, the points of the outer axes, and the rows. In a kernel
  // without row axes, each outer point is a row.
  std::int64_t lane_blocks = 1, row_blocks = 1, outer = 1, rows = 1;

  bool crowded = false;  // a row takes too many registers: a block kernel is better, if it fits

  /// Returns whether the lanes fill the elements of all threads, so that no thread has to check its bounds.
  bool is_full() const { return lanes % (std::int64_t{elements()} * threads) == 0; }
  /// Returns whether all threads of a block share one row.
  bool is_block_row() const { return threads > 32 && groups == 1; }
  std::int64_t blocks() const { return outer * row_blocks * lane_blocks; }
};

/// Plans by the cost model, or with the given schedule. Returns nullopt if the kernel is not a row kernel,
/// or the schedule does not fit it.
std::optional<RowsPlan> plan_rows(const tile::Kernel& kernel, const DeviceTarget& target,
                                  const RowsSchedule* schedule = nullptr);
/// Returns the cost model's schedule, then others that may be faster: at most `most` in all. Empty if the
/// kernel is not a row kernel.
std::vector<RowsSchedule> rows_schedules(const tile::Kernel& kernel, const DeviceTarget& target,
                                         std::size_t most);

/// Returns the alignment of the rows of an access, in elements: the largest power of two, up to `most`,
/// that divides the index of every row's first element. `index_stride`: that of a gather, else 0.
int aligned_lanes(const tile::Kernel& kernel, const tile::Access& access, std::int64_t index_stride,
                  int most);

}  // namespace rewire::codegen::cuda

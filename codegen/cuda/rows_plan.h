// Maps a row kernel to threads. In a row kernel all lanes together are one row: every reduction runs over
// all lanes and leaves a scalar, there are no dots, and a value with fewer lanes is broadcast to the
// others. A group of threads shares a row, and each thread holds a few elements of the row in registers. A
// block has several groups, each with rows of its own. blocks_plan.h maps all other kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

/// The memory layout of an access along the lanes.
enum class LanePattern : std::uint8_t {
  scalar,      // the access has no lanes
  contiguous,  // the lanes are neighbours in memory
  general      // any other layout: accessed element by element
};

enum class SectionId : std::uint8_t { prologue, body, epilogue };

/// A section is split into levels, which run one after another. What needs the result of a reduction is at
/// a later level than the reduction. A level has four parts, in this order: scalars, loads of whole rows,
/// one loop over a thread's elements, stores of whole rows.
struct LeveledNode {
  const tile::Node* node = nullptr;
  int level = 0;
};
struct Section {
  std::vector<LeveledNode> nodes;
  int levels = 0;
};

/// Where a value is kept.
struct ValueHome {
  bool lane = false;     // the value has lanes
  bool array = false;    // in a register for each of the thread's elements, after its loop too
  bool again = false;    // index arithmetic: recomputed in every loop that reads it
  bool inlined = false;  // written into the expression of its only reader
  SectionId section = SectionId::prologue;
  int level = 0;  // the first level at which it is available
  int uses = 0;   // the number of operands that read it
};

/// How a carried value changes with each row. It is additive if next = entry + added, or next = max(entry,
/// added). Several groups may then share the rows.
struct CarriedPlan {
  std::optional<tile::ReduceKind> additive;  // nullopt: it is not additive
  const tile::Node* next = nullptr;          // if additive: the node that computes next
  tile::TileValue added;
};

/// The schedule, and the facts about the kernel that its text depends on.
struct RowsPlan : RowsSchedule {
  std::vector<std::int32_t> lane_axes;
  std::int64_t lanes = 1;
  Section prologue, body, epilogue;
  std::vector<ValueHome> homes;
  std::vector<CarriedPlan> carried;
  bool by_partition = false;  // each block walks one partition; false: rows are independent

  // The blocks along the lanes and along the rows, the points of the outer axes, and the rows. In a kernel
  // without row axes, each outer point is a row.
  std::int64_t lane_blocks = 1, row_blocks = 1, outer = 1, rows = 1;

  bool crowded = false;  // a row takes too many registers: a block kernel is better, if it fits

  /// Returns whether all carried values are additive, so that several groups may share the rows of a
  /// partition.
  bool adds_up() const {
    return std::all_of(carried.begin(), carried.end(),
                       [](const CarriedPlan& value) { return value.additive.has_value(); });
  }
  /// Returns whether the lanes fill the elements of all threads, so that no thread has to check its bounds.
  bool is_full() const { return lanes % (std::int64_t{elements()} * threads) == 0; }
  /// Returns whether all threads of a block share one row.
  bool is_block_row() const { return threads > 32 && groups == 1; }
  std::int64_t blocks() const { return outer * row_blocks * lane_blocks; }
  const ValueHome& home(tile::TileValue value) const { return homes[static_cast<std::size_t>(value.id)]; }
};

/// Plans by the cost model, or with the given schedule. Returns nullopt if the kernel is not a row kernel,
/// or the schedule does not fit it.
std::optional<RowsPlan> plan_rows(const tile::Kernel& kernel, const DeviceTarget& target,
                                  const RowsSchedule* schedule = nullptr);
/// Returns the cost model's schedule, then others that may be faster: at most `most` in all. The kernel
/// must be a row kernel.
std::vector<RowsSchedule> rows_schedules(const tile::Kernel& kernel, const DeviceTarget& target,
                                         std::size_t most);

LanePattern lane_pattern(const tile::Kernel& kernel, const tile::Access& access);
/// Returns the alignment of the rows of an access, in elements: the largest power of two, up to `most`,
/// that divides the index of every row's first element. `index_stride`: that of a gather, else 0.
int aligned_lanes(const tile::Kernel& kernel, const tile::Access& access, std::int64_t index_stride,
                  int most);

}  // namespace rewire::codegen::cuda

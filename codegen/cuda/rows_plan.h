// Maps a kernel whose lanes are one row to threads. Its lane values all run over the same lanes (a value
// over some of them is repeated), and a reduction leaves a scalar. A group of threads shares a row, and each
// thread holds a few of its elements in registers. A block has several groups, each with rows of its own.
// blocks_plan.h maps kernels of any other kind (reductions that keep lanes, dots).
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
  scalar,      // no lanes
  contiguous,  // neighbours in memory
  general      // element by element
};

enum class SectionId : std::uint8_t { prologue, body, epilogue };

/// A section is split into levels: lanes that need a reduction come a level after it. A level is: scalars,
/// loads of whole rows, one loop over a thread's elements, stores of whole rows.
struct LeveledNode {
  const tile::Node* node = nullptr;
  int level = 0;
};
struct Section {
  std::vector<LeveledNode> nodes;
  int levels = 0;
};

struct ValueHome {
  bool lane = false;     // has lanes
  bool array = false;    // one register per element, kept beyond its loop
  bool again = false;    // index arithmetic: computed in every loop that reads it
  bool inlined = false;  // part of its reader's expression
  SectionId section = SectionId::prologue;
  int level = 0;  // from which it is known
  int uses = 0;
};

/// A carried value. If it is additive, several groups may walk its rows: next = entry + something, or their
/// maximum.
struct CarriedPlan {
  std::optional<tile::ReduceKind> additive;
  const tile::Node* next = nullptr;  // the node that adds, if additive
  tile::TileValue added;
};

/// The numbers of the schedule, and what follows from the kernel.
struct RowsPlan : RowsSchedule {
  std::vector<std::int32_t> lane_axes;
  std::int64_t lanes = 1;
  Section prologue, body, epilogue;
  std::vector<ValueHome> homes;
  std::vector<CarriedPlan> carried;
  bool by_partition = false;  // a block is one partition; else rows are independent

  std::int64_t lane_blocks = 1, row_blocks = 1, outer = 1, rows = 1;

  bool crowded = false;  // no cut of a row leaves enough registers: a block kernel is better, if it fits

  /// Returns whether all carried values only add up, so that groups may each carry a share.
  bool adds_up() const {
    return std::all_of(carried.begin(), carried.end(),
                       [](const CarriedPlan& value) { return value.additive.has_value(); });
  }
  /// Returns whether every element of every thread is a lane of the row.
  bool is_full() const { return lanes % (std::int64_t{elements()} * threads) == 0; }
  bool is_block_row() const { return threads > 32 && groups == 1; }
  std::int64_t blocks() const { return outer * row_blocks * lane_blocks; }
  const ValueHome& home(tile::TileValue value) const { return homes[static_cast<std::size_t>(value.id)]; }
};

/// Plans by the cost model, or with the given schedule. Returns nullopt if the kernel is of another kind, or
/// the schedule does not fit it.
std::optional<RowsPlan> plan_rows(const tile::Kernel& kernel, const DeviceTarget& target,
                                  const RowsSchedule* schedule = nullptr);
/// Returns the cost model's schedule, then others that may be faster, `most` in all. The kernel must be of
/// this kind.
std::vector<RowsSchedule> rows_schedules(const tile::Kernel& kernel, const DeviceTarget& target,
                                         std::size_t most);

LanePattern lane_pattern(const tile::Kernel& kernel, const tile::Access& access);
/// Returns the most neighbours, a power of two up to `most`, that the row of an access is always aligned to.
int aligned_lanes(const tile::Kernel& kernel, const tile::Access& access, std::int64_t index_stride,
                  int most);

}  // namespace rewire::codegen::cuda

// How a kernel whose lanes are one row becomes threads. Its lane values all run over the same lanes (a value
// over some of them is repeated), and a reduction leaves a scalar. A group of threads shares a row, each
// thread holds a few of its elements in registers; a block has several groups, each with rows of its own.
// Kernels of any other kind (reductions that keep lanes, dots) are blocks_plan.h's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

/// How an access runs along the lanes.
enum class LanePattern : std::uint8_t {
  scalar,      // no lanes
  contiguous,  // neighbours in memory
  general      // element by element
};

enum class SectionId : std::uint8_t { prologue, body, epilogue };

/// A section falls into levels: what lanes need from a reduction comes a level after it. A level is: scalars,
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
  bool array = false;    // one register an element, kept beyond its loop
  bool again = false;    // index arithmetic: computed in every loop that reads it
  bool inlined = false;  // stands in its reader's expression
  SectionId section = SectionId::prologue;
  int level = 0;  // where it is known
  int uses = 0;
};

/// A carried value whose rows may be walked by several groups: next = entry + something, or their maximum.
struct CarriedPlan {
  std::optional<tile::ReduceKind> additive;
  const tile::Node* next = nullptr;  // the node that adds, when additive
  tile::TileValue added;
};

/// The numbers of its schedule, and what follows from the kernel.
struct RowsPlan : RowsSchedule {
  std::vector<std::int32_t> lane_axes;
  std::int64_t lanes = 1;
  Section prologue, body, epilogue;
  std::vector<ValueHome> homes;
  std::vector<CarriedPlan> carried;
  bool by_partition = false;  // a block is one partition; else rows are independent

  std::int64_t lane_blocks = 1, row_blocks = 1, outer = 1, rows = 1;

  bool crowded = false;  // no cut of a row leaves registers enough: better a block kernel, if that fits

  /// Whether all that is carried only adds up, so that groups may each carry a share.
  bool adds_up() const {
    return std::all_of(carried.begin(), carried.end(),
                       [](const CarriedPlan& value) { return value.additive.has_value(); });
  }
  /// Whether every element of every thread is a lane of the row.
  bool is_full() const { return lanes % (std::int64_t{elements()} * threads) == 0; }
  bool is_block_row() const { return threads > 32 && groups == 1; }
  std::int64_t blocks() const { return outer * row_blocks * lane_blocks; }
  const ValueHome& home(tile::TileValue value) const { return homes[static_cast<std::size_t>(value.id)]; }
};

/// By the cost model, or with this schedule. nullopt: the kernel is of another kind, or the schedule is not
/// for it.
std::optional<RowsPlan> plan_rows(const tile::Kernel& kernel, const DeviceTarget& target,
                                  const RowsSchedule* schedule = nullptr);
/// The cost model's, and after it those that may be faster, `most` in all. The kernel is of this kind.
std::vector<RowsSchedule> rows_schedules(const tile::Kernel& kernel, const DeviceTarget& target,
                                         std::size_t most);

LanePattern lane_pattern(const tile::Kernel& kernel, const tile::Access& access);
/// The most neighbours, a power of two up to `most`, at which the row of an access always begins.
int aligned_lanes(const tile::Kernel& kernel, const tile::Access& access, std::int64_t index_stride,
                  int most);

}  // namespace rewire::codegen::cuda

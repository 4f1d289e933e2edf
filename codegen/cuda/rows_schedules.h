// Chooses the schedules of a row kernel (rows_plan.h) from a few facts about it, without the kernel itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/rows_levels.h"
#include "codegen/cuda/rows_registers.h"
#include "codegen/cuda/schedule.h"

namespace rewire::codegen::cuda {

struct RowFacts {
  int multiprocessors = 1;      // of the target
  std::int64_t lanes = 1;       // of a row
  std::int64_t rows = 1;        // without row axes, each outer point is a row
  std::int64_t outer = 1;       // points of the outer axes
  std::int64_t partitions = 1;  // of the rows
  bool by_partition = false;    // each block walks one partition; false: rows are independent
  bool bounded = false;         // a block walks few rows, in their order, so it is one group
  bool adds_up = true;          // all carried values are additive
  bool has_reduction = false;
  bool is_one_block = false;     // what it reads and writes is at one place for several rows or lanes
  bool shares_prologue = false;  // rows share what the prologue loads, so that a group may walk several
  /// The most lanes of one access: what 16 bytes hold of the narrowest dtype, if that divides the lanes.
  int widest = 1;
  LiveRegisters live;

  std::int64_t rows_per_partition() const { return (rows + partitions - 1) / partitions; }
  /// Returns whether the lanes of a row may be spread over blocks.
  bool cuts_lanes() const { return !has_reduction && !is_one_block; }
  /// Returns whether rows stay whole, with so many arrays that a thread could not hold four elements of each.
  bool has_many_arrays() const;
  /// Returns whether blocks walk partitions without a reduction along a row. Then they load the next rows
  /// meanwhile.
  bool walks_alone() const { return by_partition && !has_reduction; }
};

/// Returns the facts that do not depend on registers (`live` is zero).
RowFacts row_facts(const tile::Kernel& kernel, const RowLevels& levels, const DeviceTarget& target);

struct ModelledRows {
  RowsSchedule schedule;
  bool crowded = false;  // a row takes too many registers: a block kernel is better, if it fits
};
/// Returns the cost model's choice.
ModelledRows modelled_rows(const RowFacts& facts);
/// Returns the cost model's schedule, then others that may be faster: at most `most` in all. They keep to the
/// registers that there are.
std::vector<RowsSchedule> rows_schedules(const RowFacts& facts, std::size_t most);
/// Returns whether a kernel can be written with the schedule. A recorded one may be another kernel's.
bool fits(const RowFacts& facts, const RowsSchedule& schedule);

/// The blocks along the lanes, and along the rows.
std::int64_t lane_blocks(const RowFacts& facts, const RowsSchedule& schedule);
std::int64_t row_blocks(const RowFacts& facts, const RowsSchedule& schedule);

}  // namespace rewire::codegen::cuda

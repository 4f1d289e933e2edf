#include "codegen/cuda/rows_plan.h"

#include <numeric>
#include <utility>

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/rows_registers.h"
#include "codegen/cuda/rows_schedules.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;
using tile::Kernel;

struct RowKernel {
  RowLevels levels;
  RowFacts facts;
};

/// Returns what does not depend on a schedule; nullopt if the kernel is not a row kernel.
std::optional<RowKernel> row_kernel(const Kernel& kernel, const DeviceTarget& target) {
  if (!is_row_kernel(kernel)) return std::nullopt;
  RowKernel rows{row_levels(kernel), {}};
  choose_homes(kernel, rows.levels);
  rows.facts = row_facts(kernel, rows.levels, target);
  rows.facts.live = live_registers(kernel, rows.levels);
  if (rows.facts.has_many_arrays()) {
    sink_scalar_loads(kernel, rows.levels);
    rows.facts.live = live_registers(kernel, rows.levels);
  }
  return rows;
}

}  // namespace

int aligned_lanes(const Kernel& kernel, const tile::Access& access, std::int64_t index_stride, int most) {
  std::int64_t divisor = most;
  const auto take = [&](std::int64_t stride) { divisor = std::gcd(divisor, stride); };
  take(access.offset);
  take(index_stride);
  if (kernel.partitions > 1) take(access.part_stride);
  for (std::size_t axis = 0; axis < kernel.axes.size(); ++axis) {
    if (kernel.axes[axis].use != AxisUse::lane && kernel.axes[axis].extent > 1) take(access.strides[axis]);
  }
  return static_cast<int>(divisor);
}

std::optional<RowsPlan> plan_rows(const Kernel& kernel, const DeviceTarget& target,
                                  const RowsSchedule* schedule) {
  std::optional<RowKernel> rows = row_kernel(kernel, target);
  if (!rows || (schedule != nullptr && !fits(rows->facts, *schedule))) return std::nullopt;
  const RowFacts& facts = rows->facts;
  const ModelledRows model = schedule != nullptr ? ModelledRows{*schedule} : modelled_rows(facts);
  RowsPlan plan;
  static_cast<RowsSchedule&>(plan) = model.schedule;
  static_cast<RowLevels&>(plan) = std::move(rows->levels);
  plan.lane_axes = axes_of(kernel, AxisUse::lane);
  plan.lanes = facts.lanes;
  plan.by_partition = facts.by_partition;
  plan.lane_blocks = lane_blocks(facts, plan);
  plan.row_blocks = row_blocks(facts, plan);
  plan.outer = facts.outer;
  plan.rows = facts.rows;
  plan.crowded = model.crowded;
  return plan;
}

std::vector<RowsSchedule> rows_schedules(const Kernel& kernel, const DeviceTarget& target, std::size_t most) {
  const std::optional<RowKernel> rows = row_kernel(kernel, target);
  return rows ? rows_schedules(rows->facts, most) : std::vector<RowsSchedule>();
}

}  // namespace rewire::codegen::cuda

// Merges axes; see simplify.h.
#include "codegen/tile/simplify.h"

#include <algorithm>

#include "codegen/tile/walk.h"

namespace rewire::codegen::tile {
namespace {

template <class Visit>
void visit_accesses(Kernel& kernel, Visit visit) {
  visit_nodes(kernel, [&](Node& node) {
    if (auto* load = std::get_if<Load>(&node)) visit(load->access);
    if (auto* store = std::get_if<Store>(&node)) visit(store->access);
    if (auto* random = std::get_if<Random>(&node)) visit(random->element);
  });
}

bool holds(const std::vector<std::int32_t>& axes, std::int32_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Lanes shorter than this leave vectors half empty, and each row's cost is paid for few elements.
constexpr std::int64_t kShortLane = 128;

bool reduces(Kernel& kernel, std::int32_t axis) {
  bool found = false;
  visit_nodes(kernel, [&](Node& node) {
    if (const auto* reduce = std::get_if<Reduce>(&node)) found = found || holds(reduce->axes, axis);
  });
  return found;
}

// Returns whether rows may become lanes: nothing is added up over either, and enough rows are left to share
// out.
bool lengthens_lane(Kernel& kernel, std::int32_t row, std::int32_t lane) {
  const Axis& rows = kernel.axes[static_cast<std::size_t>(row)];
  const Axis& lanes = kernel.axes[static_cast<std::size_t>(lane)];
  return rows.use == AxisUse::row && lanes.use == AxisUse::lane && lanes.extent < kShortLane &&
         kernel.row_count() / rows.extent >= std::max<std::int64_t>(kernel.partitions, 2) &&
         kernel.carried.empty() && !reduces(kernel, lane);
}

bool can_merge(Kernel& kernel, std::int32_t high) {
  const std::int32_t low = high + 1;
  const auto h = static_cast<std::size_t>(high), l = static_cast<std::size_t>(low);
  const bool lengthens = lengthens_lane(kernel, high, low);
  if (kernel.axes[h].use != kernel.axes[l].use && !lengthens) return false;
  bool can = true;
  visit_accesses(kernel, [&](Access& access) {
    can = can && access.strides[h] == access.strides[l] * kernel.axes[l].extent;
  });
  for (const ValueInfo& value : kernel.values)
    can = can && (lengthens || holds(value.lanes, high) == holds(value.lanes, low));
  visit_nodes(kernel, [&](Node& node) {
    if (const auto* index = std::get_if<Index>(&node)) can = can && index->axis != high && index->axis != low;
    if (const auto* dot = std::get_if<Dot>(&node)) can = can && dot->contract != high && dot->contract != low;
    if (const auto* reduce = std::get_if<Reduce>(&node))
      can = can && holds(reduce->axes, high) == holds(reduce->axes, low);
  });
  return can;
}

void drop_axis(std::vector<std::int32_t>& axes, std::int32_t axis) {
  std::erase(axes, axis);
  for (std::int32_t& a : axes) a -= a > axis ? 1 : 0;
}

// Merges axis `high` into the next one, the low axis, which takes its elements and its place.
void merge(Kernel& kernel, std::int32_t high) {
  const auto h = static_cast<std::size_t>(high);
  kernel.axes[h + 1].extent *= kernel.axes[h].extent;
  kernel.axes.erase(kernel.axes.begin() + high);
  visit_accesses(kernel, [&](Access& access) { access.strides.erase(access.strides.begin() + high); });
  for (ValueInfo& value : kernel.values) drop_axis(value.lanes, high);
  visit_nodes(kernel, [&](Node& node) {
    if (auto* index = std::get_if<Index>(&node)) index->axis -= index->axis > high ? 1 : 0;
    if (auto* dot = std::get_if<Dot>(&node)) dot->contract -= dot->contract > high ? 1 : 0;
    if (auto* reduce = std::get_if<Reduce>(&node)) drop_axis(reduce->axes, high);
  });
}

}  // namespace

void merge_axes(Kernel& kernel) {
  if (kernel.bounds || !kernel.short_tiles.empty()) return;  // they name axes and values
  for (std::int32_t high = static_cast<std::int32_t>(kernel.axes.size()) - 2; high >= 0; --high) {
    if (can_merge(kernel, high)) merge(kernel, high);
  }
}

}  // namespace rewire::codegen::tile

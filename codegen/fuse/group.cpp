// Groups and their axes; see group.h.
#include "codegen/fuse/group.h"

#include <algorithm>

#include "ir/opcodes.h"

namespace rewire::codegen {
namespace {

using ir::Function;
using ir::Op;

// The most columns that are summed side by side: their accumulators stay in the first-level cache.
constexpr std::int64_t kMaxColumns = 4096;
constexpr std::int64_t kSmall = 256;  // elements of a small matrix

bool contains(const std::set<int>& set, int item) {
  return set.find(item) != set.end();
}

// Returns the lanes that a group must have.
std::set<int> required_lanes(const Group& group, const Function& function) {
  std::set<int> lanes;
  for (int op : group.row_reductions) {
    lanes.merge(group.reduced_axes(op, function.body[static_cast<std::size_t>(op)]));
  }
  std::set<std::int32_t> sinks;
  for (int op : group.ops) {
    const Op& node = function.body[static_cast<std::size_t>(op)];
    if (is_reduction(node) && !contains(group.row_reductions, op)) sinks.insert(node.results[0].id);
  }
  for (std::int32_t value : group.exported) {
    if (sinks.contains(value)) continue;
    const std::set<int> present = Group::axes_of(group.maps.at(value));
    for (int axis : group.all_axes()) {
      if (!contains(present, axis)) lanes.insert(axis);
    }
  }
  for (int op : group.ops) {  // an update's value, too, is stored once per element
    const Op& node = function.body[static_cast<std::size_t>(op)];
    if (node.code != ir::Opcode::update) continue;
    const std::set<int> present = Group::axes_of(group.sources.at({op, 0}).map);
    for (int axis : group.all_axes()) {
      if (!contains(present, axis)) lanes.insert(axis);
    }
  }
  return lanes;
}

std::optional<AxisPlan> plan_with_lanes(const Group& group, const Function& function,
                                        const std::set<int>& lanes, bool rows_first) {
  std::set<int> rows;
  for (int op : group.ops) {
    const Op& node = function.body[static_cast<std::size_t>(op)];
    if (!is_reduction(node) || contains(group.row_reductions, op)) continue;
    for (int axis : group.reduced_axes(op, node)) {
      if (!contains(lanes, axis)) rows.insert(axis);
    }
  }
  for (int op : group.ops) {
    const Op& node = function.body[static_cast<std::size_t>(op)];
    if (!is_reduction(node) || contains(group.row_reductions, op)) continue;
    const std::set<int> kept = Group::axes_of(group.maps.at(node.results[0].id));
    const std::set<int> known = group.reduced_axes(op, node);
    const bool carried =
        !rows_first || std::ranges::any_of(known, [&](int axis) { return contains(rows, axis); });
    if (carried && std::ranges::any_of(kept, [&](int axis) { return contains(rows, axis); }))
      return std::nullopt;
    // An axis that the reduction neither keeps nor reduces must be a lane. Otherwise its sum would be
    // computed several times.
    for (int axis : group.all_axes()) {
      if (!contains(kept, axis) && !contains(known, axis) && !contains(lanes, axis)) return std::nullopt;
    }
  }
  AxisPlan plan;
  const bool sinks = !rows.empty();
  for (int axis : group.all_axes()) {
    if (contains(lanes, axis)) {
      plan.lanes.push_back(axis);
    } else if (!sinks || contains(rows, axis)) {
      plan.rows.push_back(axis);
    } else {
      plan.outer.push_back(axis);
    }
  }
  return plan;
}

}  // namespace

bool is_reduction(const Op& op) {
  return op.code == ir::Opcode::sum || op.code == ir::Opcode::max;
}

int Group::add_axis(std::int64_t extent) {
  extents.push_back(extent);
  return static_cast<int>(extents.size()) - 1;
}

void Group::split_axis(const AxisSplit& split) {
  const auto axis = static_cast<std::size_t>(split.axis);
  // The low axis comes directly after the high one, so that axes stay in row-major order.
  const int low_axis = split.axis + 1;
  const auto shift = [&](Affine& affine) {
    Affine::Terms terms;
    for (const auto& [a, coefficient] : affine.terms) terms[a >= low_axis ? a + 1 : a] = coefficient;
    affine.terms = std::move(terms);
    apply_split(affine, split.axis, split.low_extent, low_axis);
  };
  extents[axis] /= split.low_extent;
  extents.insert(extents.begin() + low_axis, split.low_extent);
  for (auto& [value, map] : maps) std::for_each(map.begin(), map.end(), shift);
  for (auto& [op, map] : reduce_maps) std::for_each(map.begin(), map.end(), shift);
  for (auto& [key, source] : sources) std::for_each(source.map.begin(), source.map.end(), shift);
}

std::set<int> Group::axes_of(const IndexMap& map) {
  std::set<int> axes;
  for (const Affine& affine : map) {
    for (const auto& [axis, coefficient] : affine.terms) axes.insert(axis);
  }
  return axes;
}

std::set<int> Group::reduced_axes(int op, const ir::Op& reduction) const {
  std::set<int> axes = axes_of(reduce_maps.at(op));
  for (int axis : axes_of(maps.at(reduction.results[0].id))) axes.erase(axis);
  return axes;
}

std::int64_t Group::size_of(const std::set<int>& axes) const {
  std::int64_t size = 1;
  for (int axis : axes) size *= extents[static_cast<std::size_t>(axis)];
  return size;
}

std::set<int> Group::all_axes() const {
  std::set<int> axes;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] > 1) axes.insert(static_cast<int>(axis));
  }
  return axes;
}

bool is_small(const Group& group) {
  return group.size_of(group.all_axes()) <= kSmall;
}

bool reduces_last(const ir::Shape& operand, const ir::Shape& result) {
  for (std::size_t d = operand.size(); d-- > 0;) {
    if (operand[d] > 1) return result[d] == 1;
  }
  return true;
}

bool reduces_last_alone(const ir::Shape& operand, const ir::Shape& result) {
  bool kept = false;
  for (std::size_t d = operand.size(); d-- > 0;) {
    if (operand[d] == 1) continue;
    if (kept && result[d] == 1) return false;
    kept = kept || result[d] > 1;
  }
  return kept && reduces_last(operand, result);
}

std::vector<int> matching_axes(const Group& group, std::int64_t extent, const std::set<int>& taken) {
  const int count = static_cast<int>(group.extents.size());
  for (int last = count - 1; last >= 0; --last) {
    std::int64_t product = 1;
    std::vector<int> run;
    for (int axis = last; axis >= 0 && !taken.contains(axis); --axis) {
      product *= group.extents[static_cast<std::size_t>(axis)];
      run.insert(run.begin(), axis);
      if (product == extent) return run;
      if (product > extent) break;
    }
  }
  return {};
}

bool covers(const IndexMap& map, const ir::Shape& shape, const Extents& extents) {
  std::set<int> seen;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (map[i].offset != 0) return false;
    // Row-major: with the terms sorted by coefficient, each coefficient is the product of the extents below
    // it.
    std::vector<std::pair<std::int64_t, int>> terms;
    for (const auto& [axis, coefficient] : map[i].terms) terms.emplace_back(coefficient, axis);
    std::sort(terms.begin(), terms.end());
    std::int64_t product = 1;
    for (const auto& [coefficient, axis] : terms) {
      if (coefficient != product || !seen.insert(axis).second) return false;
      product *= extents[static_cast<std::size_t>(axis)];
    }
    if (product != shape[i]) return false;
  }
  return true;
}

bool sums_along_rows(const Group& group, const Function& function) {
  return std::ranges::all_of(group.row_reductions, [&](int member) {
    const Op& reduction = function.body[static_cast<std::size_t>(member)];
    return reduces_last(function.type(reduction.operands[0]).shape,
                        function.type(reduction.results[0]).shape);
  });
}

std::optional<AxisPlan> plan_axes(const Group& group, const Function& function, std::int64_t lane_elements,
                                  bool rows_first) {
  // A group that itself reads sums of columns holds the whole matrix, so that these sums walk along its
  // rows.
  const std::set<int> required =
      sums_along_rows(group, function) ? required_lanes(group, function) : group.all_axes();
  if (group.size_of(required) > lane_elements) return std::nullopt;
  if (!required.empty()) return plan_with_lanes(group, function, required, rows_first);
  const std::set<int> axes = group.all_axes();
  // No lanes are forced. A sum along rows takes the axes that it sums as lanes, and is complete with each
  // row.
  std::set<int> along;
  for (int op : group.ops) {
    const Op& node = function.body[static_cast<std::size_t>(op)];
    if (is_reduction(node) &&
        reduces_last_alone(function.type(node.operands[0]).shape, function.type(node.results[0]).shape))
      along.merge(group.reduced_axes(op, node));
  }
  if (rows_first && !along.empty() && group.size_of(along) <= lane_elements) {
    if (auto plan = plan_with_lanes(group, function, along, rows_first)) return plan;
  }
  // Sums of columns take all the columns that they keep as lanes, so that whole rows are read.
  std::set<int> kept;
  for (int op : group.ops) {
    const Op& node = function.body[static_cast<std::size_t>(op)];
    if (is_reduction(node)) kept.merge(Group::axes_of(group.maps.at(node.results[0].id)));
  }
  if (!kept.empty() && group.size_of(kept) <= kMaxColumns) {
    if (auto plan = plan_with_lanes(group, function, kept, rows_first)) return plan;
  }
  // The innermost axis becomes the lanes, or else any axis that fits the reductions. In a large space no
  // other axis may: each element of a vector would be in a cache line of its own. Sums that agree on no such
  // axis stay kernels of their own.
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (group.extents[static_cast<std::size_t>(*axis)] > lane_elements) continue;
    if (auto plan = plan_with_lanes(group, function, {*axis}, rows_first)) return plan;
    if (group.ops.size() > 1 && group.size_of(axes) > kInCache) return std::nullopt;
  }
  return plan_with_lanes(group, function, {}, rows_first);
}

}  // namespace rewire::codegen

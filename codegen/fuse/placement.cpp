// Adds an op to a group: finds the places of its operands along the group's axes, and decides whether
// joining is worth it; see grouping.h.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/fuse/grouping.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/ops/work.h"

namespace rewire::codegen {
namespace {

using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

bool is_random(const Op& op) {
  return op.code == Opcode::random_uniform || op.code == Opcode::random_normal;
}

// A reduction of at most this many elements may run in one instance inside its consumer.
constexpr std::int64_t kSmallReduction = 4096;
constexpr std::int64_t kCheap = 2;  // flops per element: recomputed for every lane rather than stored

IndexMap identity_map(const Shape& shape, Group& group) {
  IndexMap map(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1) map[i].terms[group.add_axis(shape[i])] = 1;
  }
  return map;
}

Affine combine_axes(const Group& group, const std::vector<int>& axes) {
  Affine affine;
  std::int64_t stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (group.extents[static_cast<std::size_t>(*axis)] > 1) affine.terms[*axis] = stride;
    stride *= group.extents[static_cast<std::size_t>(*axis)];
  }
  return affine;
}

// Returns the operand map of a reduction whose result has the map `result_map`. Reduced dimensions run over
// axes of their own.
IndexMap reduction_operand_map(Group& group, const Shape& operand_shape, const Shape& result_shape,
                               const IndexMap& result_map) {
  IndexMap map = result_map;
  std::set<int> taken = Group::axes_of(result_map);
  for (std::size_t i = operand_shape.size(); i-- > 0;) {
    if (operand_shape[i] == result_shape[i]) continue;
    std::vector<int> axes = matching_axes(group, operand_shape[i], taken);
    if (axes.empty()) axes = {group.add_axis(operand_shape[i])};
    taken.insert(axes.begin(), axes.end());
    map[i] = combine_axes(group, axes);
  }
  return map;
}

/// Returns whether a value varies along the innermost axis of a large space but not along all others, such
/// as a channel's scale beside a map. Stored from such a group, it would make all axes but the innermost the
/// group's lanes.
bool turns_lanes(const Group& group, Value value) {
  const std::set<int> all = group.all_axes(), present = Group::axes_of(group.maps.at(value.id));
  return group.size_of(all) > kInCache && present.contains(*all.rbegin()) &&
         !std::ranges::includes(present, all);
}

}  // namespace

IndexMap Grouping::start_map(const Group& group, int index, std::size_t operand) const {
  const Op& node = op(index);
  if (is_random(node)) return {};
  if (node.code == Opcode::update) return operand == 0 ? group.reduce_maps.at(index) : IndexMap{};
  if (is_reduction(node)) return group.reduce_maps.at(index);
  const IndexMap& map = group.maps.at(node.results[0].id);
  if (node.code != Opcode::gather) return map;
  std::int64_t axis = node.attributes.get_int("axis");
  if (axis < 0) axis += static_cast<std::int64_t>(map.size());
  if (operand == 1) {  // one list of indices, or one per place of the axes before
    const bool one = function().type(node.operands[1]).rank() == 1;
    return {map.begin() + (one ? axis : 0), map.begin() + axis + 1};
  }
  IndexMap rest = map;
  rest[static_cast<std::size_t>(axis)] = {};
  return rest;
}

// Follows shape ops from an operand of op `index` back to memory or to the op that computes it, splitting
// axes where a reshape cuts them.
Source Grouping::resolve(Placement& placement, int index, std::size_t operand) const {
  const Op& reader = op(index);
  Group& group = placement.group;
  std::vector<int>& copies = placement.copies;
  if ((reader.code == Opcode::gather || reader.code == Opcode::pad) && operand == 0) {
    const Value root = reader.operands[0];
    const std::int32_t at = definitions_[static_cast<std::size_t>(root.id)];
    if (at >= 0 && (is_virtual(at) || op(at).code == Opcode::iota)) copies.push_back(at);
    return {root, false, true, start_map(group, index, 0)};
  }
  const bool copy = is_view(reader.code);  // a copy first follows its own shape op
  Value value = copy ? reader.results[0] : reader.operands[operand];
  IndexMap map = start_map(group, index, operand);
  bool first = copy;
  while (true) {
    const std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
    const bool stop =
        at < 0 || !is_virtual(at) || std::find(copies.begin(), copies.end(), at) != copies.end();
    if (!first && stop) return {value, false, false, std::move(map)};
    first = false;
    const Op& view = op(at);
    const Value inner = view.operands[0];
    std::optional<AxisSplit> split;
    auto next = operand_map(view, function().type(inner).shape, function().type(value).shape, map,
                            group.extents, split);
    if (next) {
      map = std::move(*next);
      value = inner;
    } else if (split) {
      group.split_axis(*split);
      return resolve(placement, index, operand);
    } else {
      // A reshape that no split can follow reads its operand by linear index, so the operand must be dense
      // in memory.
      const std::int32_t inner_at = definitions_[static_cast<std::size_t>(inner.id)];
      if (inner_at >= 0 && (is_virtual(inner_at) || op(inner_at).code == Opcode::iota))
        copies.push_back(inner_at);
      placement.dense.push_back(inner);
      return {inner, true, false, {linear_index(map, function().type(value).shape)}};
    }
  }
}

void Grouping::place_operands(Placement& placement, int index) const {
  for (std::size_t k = 0; k < op(index).operands.size(); ++k) {
    Source source = resolve(placement, index, k);
    placement.group.sources[{index, static_cast<int>(k)}] = std::move(source);
  }
}

Group Grouping::new_group(int index) const {
  Group group;
  group.ops = {index};
  const Op& node = op(index);
  if (node.code == Opcode::update) {
    group.updates.insert(node.attributes.get_string("name"));
    group.reduce_maps[index] = identity_map(function().type(node.operands[0]).shape, group);
  } else if (is_reduction(node)) {
    const Shape& shape = function().type(node.operands[0]).shape;
    const Shape& kept = function().type(node.results[0]).shape;
    IndexMap map = identity_map(shape, group);
    group.reduce_maps[index] = map;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (kept[i] != shape[i]) map[i] = {};
    }
    group.maps[node.results[0].id] = std::move(map);
  } else {
    const IndexMap map = identity_map(function().type(node.results[0]).shape, group);
    group.maps[node.results[0].id] = map;
  }
  if (!node.results.empty()) group.exported.insert(node.results[0].id);
  return group;
}

// Returns false for an op that would be computed many times over, or by one thread alone.
bool Grouping::worth_joining(const Group& group, int index, const AxisPlan& plan) const {
  const Op& node = op(index);
  const bool reduction = is_reduction(node);
  const std::set<int> axes =
      Group::axes_of(reduction ? group.reduce_maps.at(index) : group.maps.at(node.results[0].id));
  std::vector<int> walked = plan.rows;
  walked.insert(walked.end(), plan.outer.begin(), plan.outer.end());
  if (reduction && walked.empty() && group.size_of(axes) > kSmallReduction) return false;
  const bool misses =
      std::any_of(walked.begin(), walked.end(), [&](int axis) { return !axes.contains(axis); });
  if (!misses) return true;
  const bool hoisted =
      std::none_of(walked.begin(), walked.end(), [&](int axis) { return axes.contains(axis); });
  const std::int64_t size = group.size_of(axes);
  if (hoisted) return reduction ? size <= 256 : true;
  std::int64_t lanes = 1;
  for (int axis : plan.lanes) {
    if (axes.contains(axis)) lanes *= group.extents[static_cast<std::size_t>(axis)];
  }
  return lanes == 1 || (!reduction && ir::flops_per_element(function(), node) <= kCheap);
}

std::size_t Grouping::max_ops(const Group& group) const {
  return is_small(group) && !sums_along_rows(group, function()) ? kMaxSmallGroupOps : most_ops(group);
}

std::size_t Grouping::most_ops(const Group& group) const {
  return group.size_of(group.all_axes()) < kFewElements ? few_elements_ops_ : group_ops_;
}

Grouping::Joining Grouping::try_join(int index, int node) const {
  const Op& producer = op(index);
  const Value value = producer.results[0];
  const Group& home = nodes_[static_cast<std::size_t>(node)].group;
  const Shape& shape = function().type(value).shape;
  const bool sums_columns =
      is_reduction(producer) && !reduces_last(function().type(producer.operands[0]).shape, shape);
  const bool small = is_small(home);  // a join can only add axes
  if (sums_columns && !small) return {{}, "sums over other axes than the last, which only ends a group"};
  const auto too_many = [&](const Group& group) {
    return Joining{{}, fmt::format("would exceed the group's limit of {} ops", max_ops(group))};
  };
  if (!sums_columns && home.ops.size() >= max_ops(home)) return too_many(home);
  const IndexMap* at = nullptr;
  bool outside = is_result(value);
  for (const Use& use : uses(value)) {
    if (use.node != node) {
      outside = true;
      continue;
    }
    const Source& source = home.sources.at({use.op, use.operand});
    if (source.linear || source.indexed)
      return {{}, "is read through a gather, a pad or a reshape that cuts an axis"};
    if (at != nullptr && *at != source.map) return {{}, "is read at two places with different indices"};
    at = &source.map;
  }
  if (outside && !covers(*at, shape, home.extents))
    return {{}, "is read elsewhere too, and the group would not compute all of it"};
  Placement placement{home, {}, {}};
  Group& group = placement.group;
  group.ops.insert(std::lower_bound(group.ops.begin(), group.ops.end(), index), index);
  group.maps[value.id] = *at;
  if (outside) group.exported.insert(value.id);
  if (outside && !small && !is_reduction(producer) && turns_lanes(group, value))
    return {{}, "is read elsewhere too, and the group would hold its other axes on chip to store it"};
  if (is_reduction(producer)) {
    group.reduce_maps[index] =
        reduction_operand_map(group, function().type(producer.operands[0]).shape, shape, *at);
    group.row_reductions.insert(index);
  }
  place_operands(placement, index);
  if (group.ops.size() > max_ops(group)) return too_many(group);
  if (small && !is_small(group) && !sums_along_rows(group, function()))
    return {{}, "would make a small matrix too large"};
  const auto plan = plan_axes_of(group);
  if (!plan) return {{}, "does not fit the group's axes"};
  if (!worth_joining(group, index, *plan)) return {{}, "would be computed many times over, or by one thread"};
  if (!updates_in_place(group)) return {{}, "reads a state at other elements than the group updates"};
  return {std::move(placement)};
}

}  // namespace rewire::codegen

// Which ops share a kernel; see grouping.h.
#include "codegen/fuse/grouping.h"

#include <algorithm>
#include <functional>

#include "ir/error.h"
#include "ir/ops/flops.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen {
namespace {

using ir::Function;
using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

bool is_random(const Op& op) {
  return op.code == Opcode::random_uniform || op.code == Opcode::random_normal;
}

// Below this many elements a reduction may run in one instance inside its consumer.
constexpr std::int64_t kSmallReduction = 4096;
constexpr std::int64_t kCheap = 2;  // flops an element: rather computed for every lane again than stored
// Beyond this a kernel is no longer read by anybody, and its compilation dominates.
constexpr std::size_t kMaxOps = 200;

IndexMap identity_map(const Shape& shape, Group& group) {
  IndexMap map(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1) map[i].terms[group.add_axis(shape[i])] = 1;
  }
  return map;
}

// A reduction that keeps the innermost dimension sums columns: it ends its group, and its result is complete
// only after all rows.
bool reduces_last(const Shape& operand, const Shape& result) {
  for (std::size_t d = operand.size(); d-- > 0;) {
    if (operand[d] > 1) return result[d] == 1;
  }
  return true;
}

// Axes that can stand for a reduced dimension of this extent: a run of neighbours that `taken` does not hold.
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

Affine combine_axes(const Group& group, const std::vector<int>& axes) {
  Affine affine;
  std::int64_t stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (group.extents[static_cast<std::size_t>(*axis)] > 1) affine.terms[*axis] = stride;
    stride *= group.extents[static_cast<std::size_t>(*axis)];
  }
  return affine;
}

// The operand map of a reduction whose result stands at `result_map`: reduced dimensions run over axes of
// their own.
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

// H's axes by G's, so that `shared` stands at the same place in both; nullopt if they do not fall together.
std::optional<std::map<int, int>> match_groups(const Group& into, const Group& from, const IndexMap& in_into,
                                               const IndexMap& in_from) {
  std::map<int, int> axis_of;
  std::set<int> taken;
  for (std::size_t d = 0; d < in_into.size(); ++d) {
    if (in_into[d].offset != in_from[d].offset || in_into[d].terms.size() != in_from[d].terms.size())
      return std::nullopt;
    std::map<std::int64_t, int> by_stride;
    for (const auto& [axis, coefficient] : in_into[d].terms) by_stride[coefficient] = axis;
    for (const auto& [axis, coefficient] : in_from[d].terms) {
      const auto it = by_stride.find(coefficient);
      if (it == by_stride.end() || into.extents[static_cast<std::size_t>(it->second)] !=
                                       from.extents[static_cast<std::size_t>(axis)]) {
        return std::nullopt;
      }
      axis_of[axis] = it->second;
      taken.insert(it->second);
    }
  }
  for (int axis : from.all_axes()) {
    if (axis_of.contains(axis)) continue;
    const std::vector<int> match = matching_axes(into, from.extents[static_cast<std::size_t>(axis)], taken);
    if (match.size() != 1) return std::nullopt;
    axis_of[axis] = match[0];
    taken.insert(match[0]);
  }
  return axis_of;
}

void rename_axes(IndexMap& map, const std::map<int, int>& axis_of) {
  for (Affine& affine : map) {
    std::map<int, std::int64_t> terms;
    for (const auto& [axis, coefficient] : affine.terms) terms[axis_of.at(axis)] = coefficient;
    affine.terms = std::move(terms);
  }
}

}  // namespace

Grouping::Grouping(Prepared prepared, const FuseOptions& options)
    : prepared_(std::move(prepared)),
      fuse_(options.fuse),
      any_float_product_(options.grain.any_float_product),
      lane_elements_(options.grain.lane_elements) {
  const Function& f = function();
  definitions_ = f.definitions();
  uses_.resize(f.types.size());
  producer_.assign(f.types.size(), -1);
  direct_users_.resize(f.types.size());
  for (std::size_t i = 0; i < f.body.size(); ++i) {
    for (Value operand : f.body[i].operands)
      direct_users_[static_cast<std::size_t>(operand.id)].push_back(static_cast<int>(i));
  }
  for (const auto& result : f.results) results_.insert(result.value.id);
  for (int i = static_cast<int>(f.body.size()) - 1; i >= 0; --i) process(i);
  if (fuse_) {
    for (const auto& argument : f.arguments) merge_readers(argument.value, Readers::all);
  }
}

const Op* Grouping::definition(Value value) const {
  const std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
  return at < 0 ? nullptr : &op(at);
}

bool Grouping::is_virtual(int index) const {
  return is_view(op(index).code) && !prepared_.copy[static_cast<std::size_t>(index)];
}

void Grouping::process(int index) {
  const Op& node = op(index);
  if (is_virtual(index) || absorbed_.contains(index)) return;
  if (is_leaf(node.code) && !is_copy(index)) return;
  if (!is_view(node.code) && !is_leaf(node.code) && !is_fusible(node.code)) return process_opaque(index);
  if (process_epilogue(index)) return;
  if (fuse_ && !node.results.empty()) merge_readers(node.results[0], Readers::first);
  int home = -1;
  // A copy of what a call computes stays alone: the call can write its result there, and the copy disappears.
  const bool alone = is_view(node.code) && copies_call(index);
  if (fuse_ && !alone && !node.results.empty()) {
    std::set<int> candidates;
    for (const Use& use : uses(node.results[0])) {
      if (!nodes_[static_cast<std::size_t>(use.node)].opaque) candidates.insert(use.node);
    }
    for (int candidate : candidates) {
      // A scalar for many kernels is no part of one of them.
      const bool shared_scalar = candidates.size() > 1 && function().type(node.results[0]).elements() == 1 &&
                                 !nodes_[static_cast<std::size_t>(candidate)].group.all_axes().empty();
      if (shared_scalar || !runs_first(candidate, node.results[0])) continue;
      if (auto joined = try_join(index, candidate)) {
        home = candidate;
        commit(home, std::move(*joined), index);
        break;
      }
      nodes_[static_cast<std::size_t>(candidate)].stopped = ir::describe(node) + " does not fit its axes";
    }
  }
  if (home < 0) {
    Placement placement{new_group(index), {}, {}};
    place_operands(placement, index);
    home = add_node({});
    commit(home, std::move(placement), index);
  }
  if (fuse_ && !alone && !node.results.empty()) merge_consumers(index, home);
}

bool Grouping::copies_call(int copy) const {
  Value value = op(copy).operands[0];
  std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
  while (at >= 0 && is_virtual(at)) {
    value = op(at).operands[0];
    at = definitions_[static_cast<std::size_t>(value.id)];
  }
  return at >= 0 && !is_view(op(at).code) && !is_leaf(op(at).code) && !is_fusible(op(at).code);
}

// A group runs first among the readers of `value` if none of the others comes before it.
bool Grouping::runs_first(int node, Value value) const {
  std::vector<int> others;
  for (const Use& use : uses(value)) {
    if (use.node != node) others.push_back(use.node);
  }
  return !reaches(std::move(others), node);
}

std::vector<int> Grouping::successors(int node) const {
  std::vector<int> next;
  for (int target : next_[static_cast<std::size_t>(node)]) {
    while (merged_into_[static_cast<std::size_t>(target)] >= 0)
      target = merged_into_[static_cast<std::size_t>(target)];
    if (target != node) next.push_back(target);
  }
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
  return next;
}

// Edges from a node to the readers of a value it computes, and to the update of a parameter it reads.
void Grouping::add_edges(int node, const Op& producer) {
  std::vector<int>& next = next_[static_cast<std::size_t>(node)];
  for (Value result : producer.results) {
    for (const Use& use : uses(result)) next.push_back(use.node);
  }
  for (const std::string& name : nodes_[static_cast<std::size_t>(node)].reads) {
    const auto it = update_node_.find(name);
    if (it != update_node_.end()) next.push_back(it->second);
  }
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
}

int Grouping::add_node(GroupNode node) {
  nodes_.push_back(std::move(node));
  next_.emplace_back();
  merged_into_.push_back(-1);
  return static_cast<int>(nodes_.size()) - 1;
}

bool Grouping::reaches(std::vector<int> from, int to) const {
  std::vector<bool> seen(nodes_.size());
  while (!from.empty()) {
    int node = from.back();
    from.pop_back();
    while (merged_into_[static_cast<std::size_t>(node)] >= 0)
      node = merged_into_[static_cast<std::size_t>(node)];
    if (node == to) return true;
    if (seen[static_cast<std::size_t>(node)]) continue;
    seen[static_cast<std::size_t>(node)] = true;
    const std::vector<int>& next = next_[static_cast<std::size_t>(node)];
    from.insert(from.end(), next.begin(), next.end());
  }
  return false;
}

int Grouping::first_op(int node) const {
  const GroupNode& n = nodes_[static_cast<std::size_t>(node)];
  return n.opaque ? n.op : n.group.ops.front();
}

// A state element must be read where it is written, or another instance may have overwritten it.
bool Grouping::updates_in_place(const Group& group) const {
  if (group.updates.empty()) return true;
  for (const auto& [key, source] : group.sources) {
    const Op* leaf = definition(source.root);
    if (leaf == nullptr || leaf->code != Opcode::param ||
        !group.updates.contains(leaf->attributes.get_string("name")))
      continue;
    const auto update = std::find_if(group.ops.begin(), group.ops.end(), [&](int member) {
      return op(member).code == Opcode::update &&
             op(member).attributes.get_string("name") == leaf->attributes.get_string("name");
    });
    if (source.linear || source.indexed || source.map != group.reduce_maps.at(*update)) return false;
  }
  return true;
}

IndexMap Grouping::start_map(const Group& group, int index, std::size_t operand) const {
  const Op& node = op(index);
  if (is_random(node)) return {};
  if (node.code == Opcode::update) return operand == 0 ? group.reduce_maps.at(index) : IndexMap{};
  if (is_reduction(node)) return group.reduce_maps.at(index);
  const IndexMap& map = group.maps.at(node.results[0].id);
  if (node.code != Opcode::gather) return map;
  std::int64_t axis = node.attributes.get_int("axis");
  if (axis < 0) axis += static_cast<std::int64_t>(map.size());
  if (operand == 1) return {map[static_cast<std::size_t>(axis)]};
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
  const bool copy = is_view(reader.code);  // a copy takes its own step first
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
      // A reshape that no split can follow reads its operand by linear index, so that one must stand densely
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

// Refuses what would be computed many times over, or on one thread alone.
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
  return lanes == 1 || (!reduction && ir::flops_per_element(node.code) <= kCheap);
}

std::optional<Grouping::Placement> Grouping::try_join(int index, int node) const {
  const Op& producer = op(index);
  const Value value = producer.results[0];
  const Group& home = nodes_[static_cast<std::size_t>(node)].group;
  const Shape& shape = function().type(value).shape;
  if (home.ops.size() >= kMaxOps) return std::nullopt;
  if (is_reduction(producer) && !reduces_last(function().type(producer.operands[0]).shape, shape))
    return std::nullopt;
  const IndexMap* at = nullptr;
  bool outside = is_result(value);
  for (const Use& use : uses(value)) {
    if (use.node != node) {
      outside = true;
      continue;
    }
    const Source& source = home.sources.at({use.op, use.operand});
    if (source.linear || source.indexed) return std::nullopt;
    if (at != nullptr && *at != source.map) return std::nullopt;
    at = &source.map;
  }
  if (outside && !covers(*at, shape, home.extents)) return std::nullopt;
  Placement placement{home, {}, {}};
  Group& group = placement.group;
  group.ops.insert(std::lower_bound(group.ops.begin(), group.ops.end(), index), index);
  group.maps[value.id] = *at;
  if (outside) group.exported.insert(value.id);
  if (is_reduction(producer)) {
    group.reduce_maps[index] =
        reduction_operand_map(group, function().type(producer.operands[0]).shape, shape, *at);
    group.row_reductions.insert(index);
  }
  place_operands(placement, index);
  const auto plan = plan_axes_of(group);
  if (!plan || !worth_joining(group, index, *plan) || !updates_in_place(group)) return std::nullopt;
  return placement;
}

void Grouping::commit(int node, Placement placement, int index) {
  const Op& member = op(index);
  for (int copy : placement.copies) prepared_.copy[static_cast<std::size_t>(copy)] = true;
  for (Value value : placement.dense) dense_.insert(value.id);
  GroupNode& n = nodes_[static_cast<std::size_t>(node)];
  n.group = std::move(placement.group);
  for (std::size_t k = 0; k < member.operands.size(); ++k) {
    const Value root = n.group.sources.at({index, static_cast<int>(k)}).root;
    uses_[static_cast<std::size_t>(root.id)].push_back({node, index, static_cast<int>(k)});
    const Op* leaf = definition(root);
    if (leaf != nullptr && leaf->code == Opcode::param) n.reads.insert(leaf->attributes.get_string("name"));
  }
  if (member.code == Opcode::update) update_node_[member.attributes.get_string("name")] = node;
  for (Value result : member.results) producer_[static_cast<std::size_t>(result.id)] = node;
  add_edges(node, member);
}

// What is exported, and which reductions stay inside, after a group took in another.
void Grouping::refresh(Group& group) const {
  group.row_reductions.clear();
  std::set<std::int32_t> read_inside;
  for (const auto& [key, source] : group.sources) read_inside.insert(source.root.id);
  group.exported.clear();
  for (int member : group.ops) {
    const Op& producer = op(member);
    if (producer.results.empty()) continue;
    const Value value = producer.results[0];
    if (is_reduction(producer) && read_inside.contains(value.id)) group.row_reductions.insert(member);
    bool outside = is_result(value);
    for (const Use& use : uses(value)) {
      outside = outside || !std::binary_search(group.ops.begin(), group.ops.end(), use.op);
    }
    if (outside) group.exported.insert(value.id);
  }
}

// Places of `shared` in both groups at which their axes fall together, each once.
std::vector<std::map<int, int>> Grouping::alignments(const Group& into, const Group& from,
                                                     Value shared) const {
  std::vector<const IndexMap*> homes;
  if (const auto it = into.maps.find(shared.id); it != into.maps.end()) {
    homes.push_back(&it->second);
  } else {
    for (const auto& [key, source] : into.sources) {
      if (source.root == shared && !source.linear && !source.indexed) homes.push_back(&source.map);
    }
  }
  std::vector<std::map<int, int>> found;
  for (const auto& [key, source] : from.sources) {
    if (source.root != shared || source.linear || source.indexed) continue;
    for (const IndexMap* home : homes) {
      auto axis_of = match_groups(into, from, *home, source.map);
      if (axis_of && std::find(found.begin(), found.end(), *axis_of) == found.end())
        found.push_back(std::move(*axis_of));
    }
  }
  return found;
}

std::optional<Group> Grouping::try_merge(int into, int from, Value shared) const {
  const Group& first = nodes_[static_cast<std::size_t>(into)].group;
  const Group& second = nodes_[static_cast<std::size_t>(from)].group;
  for (const std::map<int, int>& axis_of : alignments(first, second, shared)) {
    if (auto merged = merged_group(first, second, axis_of)) return merged;
  }
  return std::nullopt;
}

/// `axis_of`: the axes of `second` by those of `first`.
std::optional<Group> Grouping::merged_group(const Group& first, Group second,
                                            const std::map<int, int>& axis_of) const {
  if (first.ops.size() + second.ops.size() > kMaxOps) return std::nullopt;
  Group merged = first;
  for (auto& [value, map] : second.maps) rename_axes(map, axis_of), merged.maps[value] = map;
  for (auto& [member, map] : second.reduce_maps) rename_axes(map, axis_of), merged.reduce_maps[member] = map;
  for (auto& [key, source] : second.sources) rename_axes(source.map, axis_of), merged.sources[key] = source;
  merged.ops.insert(merged.ops.end(), second.ops.begin(), second.ops.end());
  std::sort(merged.ops.begin(), merged.ops.end());
  merged.updates.insert(second.updates.begin(), second.updates.end());
  refresh(merged);
  for (int member : merged.row_reductions) {
    const Op& reduction = op(member);
    if (!reduces_last(function().type(reduction.operands[0]).shape,
                      function().type(reduction.results[0]).shape))
      return std::nullopt;
  }
  // Every value read inside must stand where it is computed.
  for (const auto& [key, source] : merged.sources) {
    const auto it = merged.maps.find(source.root.id);
    if (it != merged.maps.end() && (source.linear || source.indexed || source.map != it->second))
      return std::nullopt;
  }
  for (std::int32_t value : merged.exported) {
    if (!covers(merged.maps.at(value), function().types[static_cast<std::size_t>(value)].shape,
                merged.extents))
      return std::nullopt;
  }
  if (!plan_axes_of(merged) || !updates_in_place(merged)) return std::nullopt;
  return merged;
}

void Grouping::merge_consumers(int index, int node) {
  const Value value = op(index).results[0];
  std::set<int> others;
  for (const Use& use : uses(value)) {
    if (use.node != node && !nodes_[static_cast<std::size_t>(use.node)].opaque) others.insert(use.node);
  }
  const bool scalar = Group::axes_of(nodes_[static_cast<std::size_t>(node)].group.maps.at(value.id)).empty();
  for (int other : others) {
    const Group& group = nodes_[static_cast<std::size_t>(node)].group;
    const Group& reader = nodes_[static_cast<std::size_t>(other)].group;
    // A scalar is no reason to share a kernel, but scalars share one.
    if (scalar && !(group.all_axes().empty() && reader.all_axes().empty())) continue;
    // Independent: no way from one to the other but the shared value itself.
    std::vector<int> beyond = successors(node);
    std::erase(beyond, other);
    bool independent = !reaches({other}, node) && !reaches(std::move(beyond), other);
    for (const std::string& name : nodes_[static_cast<std::size_t>(node)].reads) {
      independent = independent && !reader.updates.contains(name);
    }
    if (!independent) continue;
    auto merged = try_merge(node, other, value);
    if (!merged) continue;
    absorb(node, other, std::move(*merged));
  }
}

void Grouping::absorb(int node, int other, Group merged) {
  GroupNode& home = nodes_[static_cast<std::size_t>(node)];
  GroupNode& gone = nodes_[static_cast<std::size_t>(other)];
  home.group = std::move(merged);
  home.reads.insert(gone.reads.begin(), gone.reads.end());
  gone.live = false;
  merged_into_[static_cast<std::size_t>(other)] = node;
  std::vector<int>& next = next_[static_cast<std::size_t>(node)];
  next.insert(next.end(), next_[static_cast<std::size_t>(other)].begin(),
              next_[static_cast<std::size_t>(other)].end());
  for (auto& users : uses_) {
    for (Use& use : users) {
      if (use.node == other) use.node = node;
    }
  }
  for (int& producer : producer_) {
    if (producer == other) producer = node;
  }
  for (auto& [name, updater] : update_node_) {
    if (updater == other) updater = node;
  }
}

// Independent groups that read one tensor at the same places read it once. Where its own group is still to be
// chosen, only those among them that could take it in: one that runs later would take an earlier one along.
void Grouping::merge_readers(Value value, Readers which) {
  if (function().type(value).elements() == 1) return;
  std::set<int> found;
  for (const Use& use : uses(value)) {
    if (nodes_[static_cast<std::size_t>(use.node)].opaque) continue;
    if (which == Readers::all || runs_first(use.node, value)) found.insert(use.node);
  }
  const std::vector<int> readers(found.begin(), found.end());
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (!nodes_[static_cast<std::size_t>(readers[i])].live) continue;
    for (std::size_t k = i + 1; k < readers.size(); ++k) {
      const int node = readers[i], other = readers[k];
      if (!nodes_[static_cast<std::size_t>(other)].live || reaches({node}, other) || reaches({other}, node))
        continue;
      if (auto merged = try_merge(node, other, value)) absorb(node, other, std::move(*merged));
    }
  }
}

std::vector<int> Grouping::execution_order() const {
  std::vector<int> waiting(nodes_.size());
  std::map<int, int> ready;  // first op -> node
  std::vector<std::vector<int>> next(nodes_.size());
  int live = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].live) continue;
    ++live;
    next[i] = successors(static_cast<int>(i));
    for (int n : next[i]) ++waiting[static_cast<std::size_t>(n)];
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].live && waiting[i] == 0) ready[first_op(static_cast<int>(i))] = static_cast<int>(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int node = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(node);
    for (int n : next[static_cast<std::size_t>(node)]) {
      if (--waiting[static_cast<std::size_t>(n)] == 0) ready[first_op(n)] = n;
    }
  }
  if (static_cast<int>(order.size()) != live) internal_error("fusion of '{}' made a cycle", function().name);
  return order;
}

}  // namespace rewire::codegen

// Merges groups that read the same tensor; see grouping.h.
#include <algorithm>

#include "codegen/fuse/grouping.h"
#include "codegen/lowering_steps.h"
#include "ir/opcodes.h"

namespace rewire::codegen {
namespace {

using ir::Op;
using ir::Value;

// Returns, for each axis of `from`, the axis of `into` that it becomes, such that a value has the same place
// in both; nullopt if the axes do not match.
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
    Affine::Terms terms;
    for (const auto& [axis, coefficient] : affine.terms) terms[axis_of.at(axis)] = coefficient;
    affine.terms = std::move(terms);
  }
}

}  // namespace

// Recomputes what a group exports, and which reductions it uses itself, after it took in another group.
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

// Returns the ways to match the groups' axes at places of `shared` in both, each once.
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
  const std::size_t most = is_small(first) ? kMaxSmallGroupOps : most_ops(first);
  if (first.ops.size() + second.ops.size() > most) return std::nullopt;
  for (const std::map<int, int>& axis_of : alignments(first, second, shared)) {
    if (auto merged = merged_group(first, second, axis_of)) return merged;
  }
  return std::nullopt;
}

std::optional<Group> Grouping::merged_group(const Group& first, Group second,
                                            const std::map<int, int>& axis_of) const {
  Group merged = first;
  for (auto& [value, map] : second.maps) rename_axes(map, axis_of), merged.maps[value] = map;
  for (auto& [member, map] : second.reduce_maps) rename_axes(map, axis_of), merged.reduce_maps[member] = map;
  for (auto& [key, source] : second.sources) rename_axes(source.map, axis_of), merged.sources[key] = source;
  merged.ops.insert(merged.ops.end(), second.ops.begin(), second.ops.end());
  std::sort(merged.ops.begin(), merged.ops.end());
  merged.updates.insert(second.updates.begin(), second.updates.end());
  refresh(merged);
  if (merged.ops.size() > max_ops(merged)) return std::nullopt;
  if (!is_small(merged) && !sums_along_rows(merged, function())) return std::nullopt;
  // Every value that the group reads must be read where it is computed: at the same indices.
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
  if (!does(kMergeGroups)) return;
  const Value value = op(index).results[0];
  std::set<int> others;
  for (const Use& use : uses(value)) {
    if (use.node != node && !nodes_[static_cast<std::size_t>(use.node)].opaque) others.insert(use.node);
  }
  const bool scalar = Group::axes_of(nodes_[static_cast<std::size_t>(node)].group.maps.at(value.id)).empty();
  for (int other : others) {
    const Group& group = nodes_[static_cast<std::size_t>(node)].group;
    const Group& reader = nodes_[static_cast<std::size_t>(other)].group;
    // A shared scalar is no reason to merge two groups, unless both compute only scalars.
    if (scalar && !(group.all_axes().empty() && reader.all_axes().empty())) continue;
    // Independent: no path leads from one to the other, except by the shared value itself.
    std::vector<int> beyond = order_.successors(node);
    std::erase(beyond, other);
    bool independent = !order_.reaches({other}, node) && !order_.reaches(std::move(beyond), other);
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
  order_.merge(node, other);
  for (const auto& [key, source] : gone.group.sources) {
    for (Use& use : uses_[static_cast<std::size_t>(source.root.id)]) {
      if (use.node == other) use.node = node;
    }
  }
  for (int member : gone.group.ops) {
    for (Value result : op(member).results) producer_[static_cast<std::size_t>(result.id)] = node;
  }
  for (const std::string& name : gone.group.updates) update_node_[name] = node;
}

// Merges independent groups that read one tensor at the same places, so that they read it once.
// Readers::first: the tensor's own group is not chosen yet, so only groups that could take it in are merged.
// Merged with a group that runs later, an earlier one would run later too. So a parameter or argument that is small
// beside the groups, such as a bias, is no reason: what the earlier group reads would be held until then.
void Grouping::merge_readers(Value value, Readers which) {
  if (!does(kMergeGroups)) return;
  if (function().type(value).elements() == 1) return;
  std::set<int> found;
  for (const Use& use : uses(value)) {
    if (nodes_[static_cast<std::size_t>(use.node)].opaque) continue;
    if (which == Readers::all || runs_first(use.node, value)) found.insert(use.node);
  }
  const std::vector<int> readers(found.begin(), found.end());
  constexpr std::int64_t kBeside = 16;
  const Op* leaf = definition(value);
  const bool is_leaf = leaf == nullptr || leaf->code == ir::Opcode::param;
  const auto is_small_beside = [&](int node) {
    const Group& group = nodes_[static_cast<std::size_t>(node)].group;
    return group.size_of(group.all_axes()) >= kBeside * function().type(value).elements();
  };
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (!nodes_[static_cast<std::size_t>(readers[i])].live) continue;
    for (std::size_t k = i + 1; k < readers.size(); ++k) {
      const int node = readers[i], other = readers[k];
      if (!nodes_[static_cast<std::size_t>(other)].live || order_.reaches({node}, other) ||
          order_.reaches({other}, node))
        continue;
      if (is_leaf && is_small_beside(node) && is_small_beside(other)) continue;
      if (auto merged = try_merge(node, other, value)) absorb(node, other, std::move(*merged));
    }
  }
}

}  // namespace rewire::codegen

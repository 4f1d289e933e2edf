// Loop fusion by levels, one lane axis after the other. Along an axis, nodes that run over it have odd
// levels, and other nodes have even levels. A node's level is the lowest that its operands allow:
//     level(node) >= level(operand),  and > level(operand) if the operand is reduced over the axis.
// Nodes of one odd level share one loop, whose body is scheduled the same way along the next axis.
#include "codegen/llvm/schedule_loops.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/llvm/node_cost.h"
#include "codegen/tile/walk.h"
#include "ir/opcodes.h"

namespace rewire::codegen::cpu {
namespace {

using tile::Node;
using tile::TileValue;

/// A node that must come before another.
struct Edge {
  std::int32_t before = 0;
  bool barrier = false;  // true: all of it comes first, in every loop; false: point by point
};

class LoopScheduler {
 public:
  LoopScheduler(const LoopProgram& program, std::int32_t begin, std::int32_t end)
      : program_(program), begin_(begin) {
    for (std::size_t axis = 0; axis < program.kernel.axes.size(); ++axis) {
      if (program.kernel.axes[axis].use == tile::AxisUse::lane)
        axes_.push_back(static_cast<std::int32_t>(axis));
    }
    edges_.resize(static_cast<std::size_t>(end - begin));
    lanes_.resize(edges_.size());
    for (std::int32_t node = begin; node < end; ++node) {
      lanes_[local(node)] = tile::iteration_lanes(program.kernel, at(node));
      flow_edges(node);
      memory_edges(node);
    }
  }

  /// Returns the loops of `nodes`, which are ascending. The axes before `depth` have their loops already.
  Block schedule(const std::vector<std::int32_t>& nodes, std::size_t depth) const {
    if (depth == axes_.size()) return straight_line(nodes);
    const std::int32_t axis = axes_[depth];
    if (std::none_of(nodes.begin(), nodes.end(), [&](std::int32_t node) { return loops_over(node, axis); })) {
      return schedule(nodes, depth + 1);
    }
    std::map<int, std::vector<std::int32_t>> groups;
    const std::map<std::int32_t, int> levels = find_levels(nodes, axis);
    for (std::int32_t node : nodes) groups[levels.at(node)].push_back(node);
    Block block;
    for (const auto& [level, group] : groups) {
      Block inner = schedule(group, depth + 1);
      if (!loops_over(group[0], axis)) {
        for (Step& step : inner) block.push_back(std::move(step));
        continue;
      }
      auto loop = std::make_unique<Loop>();
      loop->axis = axis;
      loop->vector = std::all_of(inner.begin(), inner.end(), [](const Step& step) { return !step.loop; });
      loop->body = std::move(inner);
      block.push_back({-1, std::move(loop)});
    }
    return block;
  }

 private:
  std::size_t local(std::int32_t node) const { return static_cast<std::size_t>(node - begin_); }
  const Node& at(std::int32_t node) const { return program_.nodes[static_cast<std::size_t>(node)]; }

  static Block straight_line(const std::vector<std::int32_t>& nodes) {
    Block block;
    for (std::int32_t node : nodes) block.push_back({node, nullptr});
    return block;
  }

  void flow_edges(std::int32_t node) {
    for (TileValue operand : tile::operands_of(at(node))) {
      const std::int32_t definition = program_.plan(operand).node;
      if (definition >= begin_) edges_[local(node)].push_back({definition, false});
    }
  }

  /// Adds edges that keep the order of accesses to an argument that the kernel writes.
  void memory_edges(std::int32_t node) {
    const tile::Access* access = argument_access(node);
    if (access == nullptr) return;
    for (std::int32_t other = begin_; other < node; ++other) {
      const tile::Access* earlier = argument_access(other);
      if (earlier == nullptr || earlier->argument != access->argument) continue;
      const bool stores =
          std::holds_alternative<tile::Store>(at(node)) || std::holds_alternative<tile::Store>(at(other));
      if (stores) edges_[local(node)].push_back({other, !same_elements(node, other)});
    }
  }

  const tile::Access* argument_access(std::int32_t node) const {
    return std::holds_alternative<tile::Random>(at(node)) ? nullptr : tile::access_of(at(node));
  }

  /// Returns whether two accesses touch the same element at the same point of the same loops.
  bool same_elements(std::int32_t a, std::int32_t b) const {
    for (std::int32_t node : {a, b}) {
      const auto* load = std::get_if<tile::Load>(&at(node));
      if (load != nullptr && load->index) return false;
    }
    const tile::Access& x = *argument_access(a);
    const tile::Access& y = *argument_access(b);
    return x.offset == y.offset && x.strides == y.strides && x.part_stride == y.part_stride &&
           lanes_[local(a)] == lanes_[local(b)];
  }

  bool loops_over(std::int32_t node, std::int32_t axis) const {
    return !std::holds_alternative<tile::Dot>(at(node)) && tile::contains_lane(lanes_[local(node)], axis);
  }

  bool reduces_over(std::int32_t node, std::int32_t axis) const {
    const auto* reduce = std::get_if<tile::Reduce>(&at(node));
    return reduce != nullptr && reduce->axes[0] == axis;
  }

  /// Returns the lowest level of `node` if `edge.before` is on `level`.
  int level_after(std::int32_t node, const Edge& edge, int level, std::int32_t axis) const {
    const bool both_loop = loops_over(edge.before, axis) && loops_over(node, axis);
    const bool closed = edge.barrier || reduces_over(edge.before, axis);
    if (both_loop) return closed ? level + 2 : level;
    return loops_over(edge.before, axis) == loops_over(node, axis) ? level : level + 1;
  }

  std::map<std::int32_t, int> find_levels(const std::vector<std::int32_t>& nodes, std::int32_t axis) const {
    std::map<std::int32_t, int> levels;
    for (std::int32_t node : nodes) {
      int level = loops_over(node, axis) ? 1 : 0;
      for (const Edge& edge : edges_[local(node)]) {
        const auto found = levels.find(edge.before);
        if (found != levels.end()) level = std::max(level, level_after(node, edge, found->second, axis));
      }
      levels[node] = level;
    }
    sink(nodes, axis, levels);
    part_narrow(nodes, axis, levels);
    return levels;
  }

  /// Moves narrow nodes out of loop nests. A node that runs over no axis inside of this one is scalar code
  /// in the nest that others make. Expensive ones that can go before or after the nest get a loop over
  /// vectors there. Levels are multiplied by 4 to make room.
  void part_narrow(const std::vector<std::int32_t>& nodes, std::int32_t axis,
                   std::map<std::int32_t, int>& levels) const {
    std::map<int, std::vector<std::int32_t>> nests;
    for (auto& [node, level] : levels) level *= 4;
    for (std::int32_t node : nodes) {
      if (loops_over(node, axis)) nests[levels[node]].push_back(node);
    }
    for (auto& [level, nest] : nests) {
      const auto narrow = [&](std::int32_t node) { return lanes_[local(node)].back() == axis; };
      if (std::all_of(nest.begin(), nest.end(), narrow)) continue;
      std::set<std::int32_t> inside(nest.begin(), nest.end());
      move_out(nest, inside, narrow, levels, level - 1,
               [&](std::int32_t node, std::int32_t other) { return depends(node, other); });
      std::reverse(nest.begin(), nest.end());
      move_out(nest, inside, narrow, levels, level + 1,
               [&](std::int32_t node, std::int32_t other) { return depends(other, node); });
    }
  }

  /// Moves narrow nodes of the nest to `level`: those that need (`needs`) no node that stays. Does so only
  /// if one of them is expensive (kDear).
  template <class Narrow, class Needs>
  void move_out(const std::vector<std::int32_t>& nest, std::set<std::int32_t>& inside, Narrow narrow,
                std::map<std::int32_t, int>& levels, int level, Needs needs) const {
    std::set<std::int32_t> stays = inside;
    bool dear = false;
    for (std::int32_t node : nest) {
      if (!inside.contains(node) || !narrow(node)) continue;
      if (std::any_of(stays.begin(), stays.end(), [&](std::int32_t other) { return needs(node, other); }))
        continue;
      stays.erase(node);
      dear = dear || node_cost(program_, at(node)) >= kDear;
    }
    if (!dear) return;
    for (std::int32_t node : nest) {
      if (inside.contains(node) && !stays.contains(node)) levels[node] = level;
    }
    inside = std::move(stays);
  }

  bool depends(std::int32_t node, std::int32_t before) const {
    const std::vector<Edge>& edges = edges_[local(node)];
    return std::any_of(edges.begin(), edges.end(), [&](const Edge& edge) { return edge.before == before; });
  }

  /// Moves loads and pointwise nodes down to their first reader, unless more values would have to be kept
  /// for that.
  void sink(const std::vector<std::int32_t>& nodes, std::int32_t axis,
            std::map<std::int32_t, int>& levels) const {
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      if (!loops_over(*it, axis) || !may_sink(*it)) continue;
      int latest = -1;
      for (std::int32_t reader : nodes) {
        for (const Edge& edge : edges_[local(reader)]) {
          if (edge.before != *it) continue;
          const int level = loops_over(reader, axis) ? levels[reader] : levels[reader] - 1;
          latest = latest < 0 ? level : std::min(latest, level);
        }
      }
      if (latest > levels[*it]) levels[*it] = latest;
    }
  }

  bool may_sink(std::int32_t node) const {
    const Node& n = at(node);
    if (const auto* load = std::get_if<tile::Load>(&n)) {
      return program_.kernel.arguments[static_cast<std::size_t>(load->access.argument)].use ==
             tile::ArgumentUse::read;
    }
    if (std::holds_alternative<tile::Constant>(n) || std::holds_alternative<tile::Index>(n)) return true;
    if (!std::holds_alternative<tile::Pointwise>(n)) return false;
    int kept = 0;
    for (TileValue operand : tile::operands_of(n)) {
      const std::int32_t definition = program_.plan(operand).node;
      if (definition < 0) return false;  // a carried value: its slot changes
      const Node& d = at(definition);
      const bool free = std::holds_alternative<tile::Load>(d) || std::holds_alternative<tile::Constant>(d) ||
                        std::holds_alternative<tile::Index>(d) || program_.info(operand).lanes.empty();
      if (!free) ++kept;
    }
    return kept <= 1;
  }

  const LoopProgram& program_;
  const std::int32_t begin_;
  std::vector<std::int32_t> axes_;                // lane axes
  std::vector<std::vector<Edge>> edges_;          // by node - begin
  std::vector<std::vector<std::int32_t>> lanes_;  // iteration lanes, by node - begin
};

/// Splits reductions into one axis each: max(max x over a) over b = max x over a and b; the same for sums.
std::vector<Node> split_reductions(tile::Kernel& kernel, const std::vector<Node>& nodes) {
  std::vector<Node> result;
  for (const Node& node : nodes) {
    const auto* reduce = std::get_if<tile::Reduce>(&node);
    if (reduce == nullptr || reduce->axes.size() == 1) {
      result.push_back(node);
      continue;
    }
    TileValue operand = reduce->operand;
    for (std::size_t i = reduce->axes.size(); i-- > 0;) {
      TileValue partial = reduce->result;
      if (i > 0) {
        tile::ValueInfo info = kernel.values[static_cast<std::size_t>(operand.id)];
        std::erase(info.lanes, reduce->axes[i]);
        partial = {static_cast<std::int32_t>(kernel.values.size())};
        kernel.values.push_back(std::move(info));
      }
      result.push_back(tile::Reduce{partial, reduce->kind, operand, {reduce->axes[i]}});
      operand = partial;
    }
  }
  return result;
}

/// Returns whether a node's result can be written to a carried slot directly. Scalars always can: they are
/// written at the row's end. Accumulators over inner lanes and dots have slots of their own.
bool writes_in_place(const tile::Kernel& kernel, const Node* definition, TileValue next) {
  const std::vector<std::int32_t>& lanes = kernel.values[static_cast<std::size_t>(next.id)].lanes;
  if (lanes.empty()) return true;
  if (definition == nullptr || std::holds_alternative<tile::Dot>(*definition)) return false;
  const auto* reduce = std::get_if<tile::Reduce>(definition);
  return reduce == nullptr || lanes.back() < reduce->axes[0];
}

/// Returns `value` if a node of `section` writes the carried slot directly; otherwise a copy at the end of
/// `section`.
TileValue with_own_node(tile::Kernel& kernel, std::vector<Node>& section, TileValue value) {
  const auto definition = std::find_if(section.begin(), section.end(),
                                       [&](const Node& node) { return tile::result_of(node) == value; });
  if (writes_in_place(kernel, definition == section.end() ? nullptr : &*definition, value)) return value;
  const TileValue copy{static_cast<std::int32_t>(kernel.values.size())};
  kernel.values.push_back(kernel.values[static_cast<std::size_t>(value.id)]);
  section.push_back(tile::Pointwise{copy, ir::Opcode::stop_gradient, {value}, ""});
  return copy;
}

}  // namespace

tile::Kernel normalise(const tile::Kernel& kernel) {
  tile::Kernel result = kernel;
  for (auto* section : {&result.prologue, &result.body, &result.epilogue}) {
    *section = split_reductions(result, *section);
    for (Node& node : *section) {
      if (auto* random = std::get_if<tile::Random>(&node))
        random->element.argument = -1;  // an index, no memory
    }
  }
  for (tile::Carried& carried : result.carried) {
    carried.initial = with_own_node(result, result.prologue, carried.initial);
    carried.next = with_own_node(result, result.body, carried.next);
  }
  return result;
}

Block schedule_loops(const LoopProgram& program, std::int32_t begin, std::int32_t end) {
  std::vector<std::int32_t> nodes;
  for (std::int32_t node = begin; node < end; ++node) nodes.push_back(node);
  return LoopScheduler(program, begin, end).schedule(nodes, 0);
}

}  // namespace rewire::codegen::cpu

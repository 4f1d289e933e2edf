// Finds products that can walk in windows; see blocks_windows.h.
#include "codegen/cuda/blocks_windows.h"

#include <algorithm>

#include "codegen/cuda/blocks_steps.h"
#include "codegen/cuda/kernel_text.h"
#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

using tile::Node;
using tile::TileValue;
using Lanes = std::vector<std::int32_t>;

bool computes(const BlockStep& step, TileValue value) {
  return std::ranges::any_of(step.nodes, [&](const Node* node) { return tile::result_of(*node) == value; });
}

/// Returns the nodes that define values, by value.
std::vector<const Node*> definitions_of(const tile::Kernel& kernel) {
  std::vector<const Node*> nodes(kernel.values.size());
  visit_nodes(kernel, [&](const Node& node) {
    if (const TileValue result = tile::result_of(node)) nodes[static_cast<std::size_t>(result.id)] = &node;
  });
  return nodes;
}

/// Erases the values that a node reads for which `allowed` is false.
template <class Allowed>
void keep_if_read_by(const tile::Kernel& kernel, std::set<std::int32_t>& values, Allowed allowed) {
  visit_nodes(kernel, [&](const Node& node) {
    for (TileValue operand : tile::operands_of(node)) {
      if (values.contains(operand.id) && !allowed(node)) values.erase(operand.id);
    }
  });
}

/// Returns the values that the second step multiplies, if the first computes all of them and no other step
/// reads them.
std::set<std::int32_t> handed_over(const tile::Kernel& kernel, const BlockStep& first,
                                   const BlockStep& second) {
  std::set<std::int32_t> values;
  for (const tile::Dot* dot : dots_of(second)) {
    const Lanes& lanes = kernel.values[static_cast<std::size_t>(dot->a.id)].lanes;
    if (dot->contract != first.row || lanes != Lanes{first.row, first.column} || !computes(first, dot->a) ||
        computes(first, dot->b))
      return {};
    values.insert(dot->a.id);
  }
  const std::size_t count = values.size();
  keep_if_read_by(kernel, values, [&](const Node& node) {
    return std::ranges::find(first.nodes, &node) != first.nodes.end() ||
           std::ranges::find(second.nodes, &node) != second.nodes.end();
  });
  return values.size() == count ? values : std::set<std::int32_t>{};
}

/// Returns the loads along the columns that only products of the step read.
std::set<std::int32_t> streamed(const tile::Kernel& kernel, const BlockStep& step) {
  const std::vector<const Node*> definitions = definitions_of(kernel);
  std::set<std::int32_t> values;
  for (const Node* node : step.nodes) {
    const auto* dot = std::get_if<tile::Dot>(node);
    if (dot == nullptr) continue;
    const auto* load = std::get_if<tile::Load>(definitions[static_cast<std::size_t>(dot->b.id)]);
    const Lanes& lanes = kernel.values[static_cast<std::size_t>(dot->b.id)].lanes;
    if (load != nullptr && !load->index && lanes.size() == 2 && lanes[0] == step.column &&
        is_read_only(kernel, load->access))
      values.insert(dot->b.id);
  }
  keep_if_read_by(kernel, values, [&](const Node& node) {
    return std::holds_alternative<tile::Dot>(node) &&
           std::ranges::find(step.nodes, &node) != step.nodes.end();
  });
  return values;
}

}  // namespace

std::optional<Windows> find_windows(const tile::Kernel& kernel, const std::vector<BlockStep>& steps,
                                    int count) {
  for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(count); ++i) {
    const BlockStep &first = steps[i], &second = steps[i + 1];
    if (first.kind != StepKind::tensor_dot || second.kind != StepKind::tensor_dot) continue;
    if (first.whole_rows || second.whole_rows || first.column != second.row) continue;
    if (chained_of(first).empty() || !chained_of(second).empty()) continue;
    Windows windows{i, handed_over(kernel, first, second)};
    if (windows.arrays.empty()) continue;
    windows.arrays.merge(streamed(kernel, first));
    return windows;
  }
  return std::nullopt;
}

}  // namespace rewire::codegen::cuda

// The pattern of a sum of few rows; see row_condition.h.
#include "codegen/tile/row_condition.h"

#include <algorithm>
#include <cmath>

#include "codegen/tile/walk.h"

namespace rewire::codegen::tile {
namespace {

template <class Kind>
const Kind* definition(const std::vector<Node>& section, TileValue value) {
  const auto found = std::ranges::find(section, value, result_of);
  return found == section.end() ? nullptr : std::get_if<Kind>(&*found);
}

/// Adding it changes no value that began as 0, which never becomes -0.
bool is_zero(const Kernel& kernel, TileValue value) {
  const auto* constant = definition<Constant>(kernel.prologue, value);
  return constant != nullptr && constant->value == 0 && !std::signbit(constant->value);
}

/// Of next = entry + select(condition, x, 0).
TileValue condition_of(const Kernel& kernel, const Carried& carried) {
  const auto* sum = definition<Pointwise>(kernel.body, carried.next);
  if (sum == nullptr || sum->code != ir::Opcode::add || !is_zero(kernel, carried.initial)) return {};
  if (sum->operands[0] != carried.entry) return {};
  const auto* select = definition<Pointwise>(kernel.body, sum->operands[1]);
  if (select == nullptr || select->code != ir::Opcode::select || !is_zero(kernel, select->operands[2]))
    return {};
  return select->operands[0];
}

}  // namespace

TileValue row_condition(const Kernel& kernel) {
  if (kernel.carried.empty()) return {};
  const TileValue condition = condition_of(kernel, kernel.carried[0]);
  const auto* equality = definition<Pointwise>(kernel.body, condition);
  if (!condition || equality == nullptr || equality->direction != "eq") return {};
  if (!kernel.values[static_cast<std::size_t>(condition.id)].lanes.empty()) return {};
  const bool adds_alone = std::ranges::all_of(kernel.body, [](const Node& node) {
    return std::holds_alternative<Load>(node) || std::holds_alternative<Pointwise>(node) ||
           std::holds_alternative<Constant>(node) || std::holds_alternative<Index>(node);
  });
  const bool one = std::ranges::all_of(
      kernel.carried, [&](const Carried& carried) { return condition_of(kernel, carried) == condition; });
  return adds_alone && one ? condition : TileValue{};
}

}  // namespace rewire::codegen::tile

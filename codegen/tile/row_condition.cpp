// Matches the pattern of a sum of few rows; see row_condition.h.
#include "codegen/tile/row_condition.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "codegen/tile/walk.h"
#include "ir/opcodes.h"

namespace rewire::codegen::tile {
namespace {

template <class Kind>
const Kind* definition(const std::vector<Node>& section, TileValue value) {
  const auto found = std::ranges::find(section, value, result_of);
  return found == section.end() ? nullptr : std::get_if<Kind>(&*found);
}

/// Returns whether a value is the constant 0, not -0. Adding it changes no value that began as 0, since such
/// a value never becomes -0.
bool is_zero(const Kernel& kernel, TileValue value) {
  const auto* constant = definition<Constant>(kernel.prologue, value);
  return constant != nullptr && constant->value == 0 && !std::signbit(constant->value);
}

/// Returns the condition of next = entry + select(condition, x, 0), which must be a scalar equality.
TileValue condition_of(const Kernel& kernel, const Carried& carried) {
  const auto* sum = definition<Pointwise>(kernel.body, carried.next);
  if (sum == nullptr || sum->code != ir::Opcode::add || !is_zero(kernel, carried.initial)) return {};
  if (sum->operands[0] != carried.entry) return {};
  const auto* select = definition<Pointwise>(kernel.body, sum->operands[1]);
  if (select == nullptr || select->code != ir::Opcode::select || !is_zero(kernel, select->operands[2]))
    return {};
  const TileValue condition = select->operands[0];
  const auto* equality = definition<Pointwise>(kernel.body, condition);
  if (equality == nullptr || equality->direction != "eq") return {};
  return kernel.values[static_cast<std::size_t>(condition.id)].lanes.empty() ? condition : TileValue{};
}

}  // namespace

std::vector<TileValue> row_conditions(const Kernel& kernel) {
  const bool adds_alone = std::ranges::all_of(kernel.body, [](const Node& node) {
    return std::holds_alternative<Load>(node) || std::holds_alternative<Pointwise>(node) ||
           std::holds_alternative<Constant>(node) || std::holds_alternative<Index>(node);
  });
  std::set<TileValue> conditions;
  for (const Carried& carried : kernel.carried) conditions.insert(condition_of(kernel, carried));
  if (!adds_alone || conditions.contains(TileValue{})) return {};
  return {conditions.begin(), conditions.end()};
}

}  // namespace rewire::codegen::tile

#include "ir/passes/dce.h"

#include <algorithm>
#include <utility>

namespace rewire::ir {
namespace {

void drop_dead_ops(Function& function) {
  std::vector<bool> live(function.types.size(), false);
  const auto is_live = [&](Value value) { return live[static_cast<std::size_t>(value.id)]; };
  for (const Argument& result : function.results) live[static_cast<std::size_t>(result.value.id)] = true;

  std::vector<bool> keep(function.body.size());
  for (std::size_t i = function.body.size(); i-- > 0;) {
    const Op& op = function.body[i];
    keep[i] = op.results.empty() || std::any_of(op.results.begin(), op.results.end(), is_live);
    if (!keep[i]) continue;
    for (Value operand : op.operands) live[static_cast<std::size_t>(operand.id)] = true;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    if (!keep[i]) continue;
    if (kept != i) function.body[kept] = std::move(function.body[i]);
    ++kept;
  }
  function.body.resize(kept);
}

void compact_values(Function& function) {
  std::vector<Value> renamed(function.types.size());
  std::vector<TensorType> types;
  const auto define = [&](Value& value) {
    Value& target = renamed[static_cast<std::size_t>(value.id)];
    target = Value{static_cast<std::int32_t>(types.size())};
    types.push_back(std::move(function.types[static_cast<std::size_t>(value.id)]));
    value = target;
  };
  const auto use = [&](Value& value) { value = renamed[static_cast<std::size_t>(value.id)]; };
  for (Argument& argument : function.arguments) define(argument.value);
  for (Op& op : function.body) {
    for (Value& operand : op.operands) use(operand);
    for (Value& result : op.results) define(result);
  }
  for (Argument& result : function.results) use(result.value);
  function.types = std::move(types);
}

}  // namespace

void dce(Module& module, PassContext& /*context*/) {
  for (Function& function : module.functions) {
    drop_dead_ops(function);
    compact_values(function);
  }
}

}  // namespace rewire::ir

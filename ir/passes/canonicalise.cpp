#include "ir/passes/canonicalise.h"

#include <array>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/passes/canonicalise_rules.h"

namespace rewire::ir {
namespace {

/// Every rule shrinks the function or moves it towards the
/// canonical form, so the walks end. Real programs need four.
constexpr int kMaxWalks = 100;

}  // namespace

const Op* Match::as(Value value, Opcode code) const {
  const Op* definition = body_.definition(value);
  return definition != nullptr && definition->code == code ? definition : nullptr;
}

bool Match::is_constant(Value value) const {
  return as(value, Opcode::constant) != nullptr;
}

Value Match::inside(Value value, Opcode code) const {
  const Op* definition = as(value, code);
  return definition == nullptr ? Value{} : definition->operands[0];
}

std::optional<double> Match::splat(Value value) const {
  const Op* definition = as(value, Opcode::constant);
  if (definition == nullptr || !definition->attributes.get<Doubles>("values").empty()) return std::nullopt;
  return definition->attributes.get_double("value");
}

Value Match::emit(Opcode code, std::initializer_list<Value> operands) const {
  return build().emit(code, operands, code == op.code ? op.attributes : Attributes{});
}

Value Match::constant(double value) const {
  return constant_like(op.results[0], value);
}

Value Match::constant_like(Value like, double value) const {
  const TensorType wanted = type(like);
  return build().constant(value, wanted.dtype, wanted.shape);
}

const std::vector<Rule>& canonicalise_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> all = pointwise_rules();
    for (auto part : {shape_rules, reduce_rules}) {
      for (Rule& rule : part()) all.push_back(std::move(rule));
    }
    return all;
  }();
  return rules;
}

void apply_rules(Module& module, Function& function, const std::vector<Rule>& rules) {
  std::array<std::vector<const Rule*>, kOpcodeCount> by_root;
  for (const Rule& rule : rules) {
    for (Opcode root : rule.roots) by_root[static_cast<std::size_t>(root)].push_back(&rule);
  }
  BodyRewriter body(module, function);
  const auto visit = [&](const Op& op) -> std::optional<std::vector<Value>> {
    const Match match(op, body);
    for (const Rule* rule : by_root[static_cast<std::size_t>(op.code)]) {
      if (const Value value = rule->apply(match)) return std::vector<Value>{value};
    }
    return std::nullopt;
  };
  int walks = 0;
  while (body.run(visit)) {
    if (++walks > kMaxWalks) internal_error("canonicalise: the rules do not settle on '{}'", function.name);
  }
}

void canonicalise(Module& module, PassContext& /*context*/) {
  for (Function& function : module.functions) apply_rules(module, function, canonicalise_rules());
}

}  // namespace rewire::ir

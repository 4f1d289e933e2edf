// The rows of canonicalise's table and what their matchers see.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/passes/rewrite.h"

namespace rewire::ir {

/// The op a rule looks at, and what is behind its operands. Emitting invalidates every `const Op*` and
/// reference into types, so a rule reads first and emits last.
class Match {
 public:
  Match(const Op& matched, BodyRewriter& body) : op(matched), body_(body) {}

  const Op& op;

  Value operator[](std::size_t i) const { return op.operands[i]; }
  const TensorType& type() const { return type(op.results[0]); }
  const TensorType& type(Value value) const { return body_.function().type(value); }
  const Shape& shape() const { return type().shape; }
  const Shape& shape(Value value) const { return type(value).shape; }
  Builder& build() const { return body_.builder(); }

  /// The op that defines `value`, if it is a `code`; nullptr otherwise.
  const Op* as(Value value, Opcode code) const;
  /// The first operand of the op that defines `value`, if that is a `code`: what -x, |x|, cast(x) are of.
  Value inside(Value value, Opcode code) const;
  bool is_constant(Value value) const;
  /// The number that a constant is everywhere.
  std::optional<double> splat(Value value) const;
  bool is(Value value, double number) const { return splat(value) == number; }

  /// The same op, or `code`, with the same attributes on other operands.
  Value emit(Opcode code, std::initializer_list<Value> operands) const;
  /// A constant of the result's type, or of that of `like`.
  Value constant(double value) const;
  Value constant_like(Value like, double value) const;

 private:
  BodyRewriter& body_;
};

struct Rule {
  std::string_view name;               // also that of its golden in tests/ir_passes/canonicalise/
  std::vector<Opcode> roots;           // the ops it may rewrite
  Value (*apply)(const Match& match);  // what stands for the op's one result; invalid: no match
};

std::vector<Rule> pointwise_rules();
std::vector<Rule> shape_rules();
std::vector<Rule> reduce_rules();

/// The whole table.
const std::vector<Rule>& canonicalise_rules();

/// Applies `rules` until none fires.
void apply_rules(Module& module, Function& function, const std::vector<Rule>& rules);

}  // namespace rewire::ir

// The rows of canonicalise's table and the input of their matchers.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/passes/rewrite.h"

namespace rewire::ir {

/// The op that a rule examines, and access to its operands' ops. Emitting invalidates every `const Op*` and
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

  /// Returns the op that defines `value` if it is a `code`, else nullptr.
  const Op* as(Value value, Opcode code) const;
  /// Returns the first operand of the op that defines `value` if that is a `code`: the x of -x, |x| or
  /// cast(x).
  Value inside(Value value, Opcode code) const;
  bool is_constant(Value value) const;
  /// Returns the number of a constant whose elements are all equal.
  std::optional<double> splat(Value value) const;
  bool is(Value value, double number) const { return splat(value) == number; }

  /// Emits the op, or `code`, with the same attributes on other operands.
  Value emit(Opcode code, std::initializer_list<Value> operands) const;
  /// Returns a constant of the result's type, or of the type of `like`.
  Value constant(double value) const;
  Value constant_like(Value like, double value) const;

 private:
  BodyRewriter& body_;
};

struct Rule {
  std::string_view name;               // also the name of its golden in tests/ir_passes/canonicalise/
  std::vector<Opcode> roots;           // the ops that it may rewrite
  Value (*apply)(const Match& match);  // the value that replaces the op's one result; invalid: no match
};

std::vector<Rule> pointwise_rules();
std::vector<Rule> shape_rules();
std::vector<Rule> reduce_rules();

/// Returns all rules.
const std::vector<Rule>& canonicalise_rules();

/// Applies `rules` until none matches.
void apply_rules(Module& module, Function& function, const std::vector<Rule>& rules);

}  // namespace rewire::ir

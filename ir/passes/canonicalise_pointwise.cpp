// canonicalise's rules for pointwise ops. In their formulas
// x, y are values, a, b are numbers, and p, q are truth values.
#include <algorithm>
#include <cmath>

#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/passes/canonicalise_rules.h"
#include "ir/tensor.h"

namespace rewire::ir {
namespace {

using enum Opcode;

Value when(bool condition, Value value) {
  return condition ? value : Value{};
}

/// Returns whether a product of normal numbers that is
/// `value` loses nothing to overflow or gradual underflow.
bool is_normal(DType dtype, double value) {
  const double least = dtype == DType::f64 ? 0x1p-1022 : dtype == DType::f16 ? 0x1p-14 : 0x1p-126;
  const double rounded = round_to(dtype, value);
  return std::isfinite(rounded) && std::abs(rounded) >= least;
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::isfinite(value) && std::abs(std::frexp(value, &exponent)) == 0.5;
}

/// Returns whether every value of `narrow` is also a value of `wide`.
bool holds_all(DType wide, DType narrow) {
  const auto mantissa = [](DType dtype) {
    switch (dtype) {
      case DType::f64:
        return 53;
      case DType::f32:
        return 24;
      case DType::bf16:
        return 8;
      case DType::f16:
        return 11;
      case DType::i64:
        return 63;
      case DType::i32:
        return 31;
      case DType::u8:
        return 8;
      case DType::i1:
        return 1;
    }
    return 0;
  };
  if (wide == narrow || narrow == DType::i1) return true;
  if (is_float(wide) && is_float(narrow)) {
    return wide == DType::f64 || (wide == DType::f32 && narrow != DType::f64);  // no other pair fits
  }
  if (is_integer(narrow) && wide != DType::i1) return mantissa(wide) >= mantissa(narrow);
  return false;
}

Value constant_on_the_right(const Match& m) {
  if (!m.is_constant(m[0]) || m.is_constant(m[1])) return {};
  return m.emit(m.op.code, {m[1], m[0]});
}

Value fold_factors(const Match& m) {
  const std::optional<double> b = m.splat(m[1]);
  const Op* inner = m.as(m[0], mul);
  if (!b || inner == nullptr || !is_float(m.type().dtype)) return {};
  const std::optional<double> a = m.splat(inner->operands[1]);
  const Value x = inner->operands[0];
  if (!a || !is_normal(m.type().dtype, *a * *b)) return {};
  return m.emit(mul, {x, m.constant(*a * *b)});
}

Value fold_terms(const Match& m) {
  const std::optional<double> b = m.splat(m[1]);
  const Op* inner = m.as(m[0], add);
  if (!b || inner == nullptr || !is_integer(m.type().dtype)) return {};
  const std::optional<double> a = m.splat(inner->operands[1]);
  const Value x = inner->operands[0];
  if (!a || !holds(m.type().dtype, *a + *b)) return {};
  return m.emit(add, {x, m.constant(*a + *b)});
}

Value divide_by_power_of_two(const Match& m) {
  const std::optional<double> a = m.splat(m[1]);
  const DType dtype = m.type().dtype;
  if (!a || !is_power_of_two(*a) || !is_normal(dtype, *a) || !is_normal(dtype, 1.0 / *a)) return {};
  return m.emit(mul, {m[0], m.constant(1.0 / *a)});
}

/// f(broadcast x, a, broadcast y) = broadcast f(x, a, y), if all broadcasts start from the same shape.
Value pointwise_of_broadcasts(const Match& m) {
  std::vector<Value> sources;
  std::optional<Shape> from;
  for (Value operand : m.op.operands) {
    const Value source = m.inside(operand, broadcast);
    if (!source && !m.splat(operand)) return {};
    sources.push_back(source);
    if (!source) continue;
    if (from && *from != m.shape(source)) return {};
    from = m.shape(source);
  }
  if (!from) return {};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i]) continue;
    const DType dtype = m.type(m[i]).dtype;
    sources[i] = m.build().constant(*m.splat(m[i]), dtype, *from);
  }
  const TensorType type = m.type();
  const Value small = m.build().emit(m.op.code, sources, m.op.attributes, TensorType{type.dtype, *from});
  return m.build().emit(broadcast, {small}, {}, type);
}

Value cast_of_cast(const Match& m) {
  const Value x = m.inside(m[0], cast);
  if (!x || !holds_all(m.type(m[0]).dtype, m.type(x).dtype)) return {};
  return m.build().emit(cast, {x}, {}, TensorType(m.type()));
}

/// not (x = y) is x ≠ y for any x and y. not (x < y) is x ≥ y for integers only: with a NaN, neither holds.
Value negated_comparison(const Match& m) {
  const Op* inner = m.as(m[0], compare);
  if (inner == nullptr) return {};
  const std::vector<Value> operands = inner->operands;
  const std::string direction = inner->attributes.get_string("direction");
  const bool ordered = !is_float(m.type(operands[0]).dtype);
  constexpr std::pair<std::string_view, std::string_view> kOpposites[] = {
      {"eq", "ne"}, {"ne", "eq"}, {"lt", "ge"}, {"ge", "lt"}, {"gt", "le"}, {"le", "gt"}};
  for (const auto& [from, to] : kOpposites) {
    if (direction != from || (!ordered && from != "eq" && from != "ne")) continue;
    return m.build().emit(compare, operands, {{"direction", std::string(to)}});
  }
  return {};
}

std::vector<Opcode> pointwise_ops() {
  std::vector<Opcode> codes;
  for (const OpInfo& info : op_table()) {
    if (info.op_class == OpClass::pointwise) codes.push_back(info.code);
  }
  return codes;
}

/// An operand that is a negative: -x, or broadcast(-x). `x`
/// is empty if it is neither; `grown` marks a broadcast.
struct Negated {
  Value x;
  bool grown = false;

  explicit operator bool() const { return bool(x); }
};

Negated negated_operand(const Match& m, std::size_t i) {
  if (const Value x = m.inside(m[i], neg)) return {x, false};
  const Value source = m.inside(m[i], broadcast);
  return {source ? m.inside(source, neg) : Value{}, true};
}

/// Returns the operand without its sign, in operand i's shape.
Value positive(const Match& m, const Negated& negated, std::size_t i) {
  return negated.grown ? m.build().broadcast(negated.x, m.shape(m[i])) : negated.x;
}

/// (-x) ∘ y and x ∘ (-y) become -(x ∘ y). A constant takes the sign itself (neg_times_constant).
Value sign_of_product(const Match& m) {
  if (!is_float(m.type().dtype)) return {};
  for (std::size_t i = 0; i < 2; ++i) {
    const Negated negated = negated_operand(m, i);
    if (!negated || m.splat(m[1 - i])) continue;
    Value operands[] = {m[0], m[1]};
    operands[i] = positive(m, negated, i);
    return m.build().emit(neg, {m.emit(m.op.code, {operands[0], operands[1]})}, {});
  }
  return {};
}

}  // namespace

std::vector<Rule> pointwise_rules() {
  using M = const Match&;
  return {
      // a ∘ x = x ∘ a for a constant a: the other rules look for constants on the right
      {"constant_right", {add, mul, maximum, minimum, logical_and, logical_or}, constant_on_the_right},

      // x + 0 = x
      {"add_zero", {add}, [](M m) { return when(m.is(m[1], 0), m[0]); }},
      // x - 0 = x
      {"sub_zero", {sub}, [](M m) { return when(m.is(m[1], 0), m[0]); }},
      // 0 - x = -x
      {"zero_sub", {sub}, [](M m) { return m.is(m[0], 0) ? m.emit(neg, {m[1]}) : Value{}; }},
      // x + (-y) = x - y
      {"add_neg",
       {add},
       [](M m) {
         const Negated y = negated_operand(m, 1);
         return y ? m.emit(sub, {m[0], positive(m, y, 1)}) : Value{};
       }},
      // (-x) + y = y - x
      {"neg_add",
       {add},
       [](M m) {
         const Negated x = negated_operand(m, 0);
         return x && !m.is_constant(m[1]) ? m.emit(sub, {m[1], positive(m, x, 0)}) : Value{};
       }},
      // x - (-y) = x + y
      {"sub_neg",
       {sub},
       [](M m) {
         const Negated y = negated_operand(m, 1);
         return y ? m.emit(add, {m[0], positive(m, y, 1)}) : Value{};
       }},
      // (x + a) + b = x + (a + b), integers
      {"add_constants", {add}, fold_terms},

      // x · 1 = x
      {"mul_one", {mul}, [](M m) { return when(m.is(m[1], 1), m[0]); }},
      // x · (-1) = -x
      {"mul_minus_one", {mul}, [](M m) { return m.is(m[1], -1) ? m.emit(neg, {m[0]}) : Value{}; }},
      // x · 0 = 0, integers
      {"mul_zero", {mul}, [](M m) { return when(m.is(m[1], 0) && is_integer(m.type().dtype), m[1]); }},
      // (-x) · (-y) = x · y,  (-x) / (-y) = x / y
      {"neg_times_neg",
       {mul, div},
       [](M m) {
         const Negated x = negated_operand(m, 0), y = negated_operand(m, 1);
         return x && y ? m.emit(m.op.code, {positive(m, x, 0), positive(m, y, 1)}) : Value{};
       }},
      // (-x) · y = -(x · y),  (-x) / y = x / (-y) = -(x / y), floats: a sum then absorbs the sign
      {"sign_of_product", {mul, div}, sign_of_product},
      // (-x) · a = x · (-a)
      {"neg_times_constant",
       {mul},
       [](M m) {
         const Value x = m.inside(m[0], neg);
         const std::optional<double> a = m.splat(m[1]);
         return x && a && is_float(m.type().dtype) ? m.emit(mul, {x, m.constant(-*a)}) : Value{};
       }},
      // -(x · a) = x · (-a)
      {"neg_of_scaled",
       {neg},
       [](M m) {
         const Op* inner = m.as(m[0], mul);
         if (inner == nullptr || !is_float(m.type().dtype)) return Value{};
         const Value x = inner->operands[0];
         const std::optional<double> a = m.splat(inner->operands[1]);
         return a ? m.emit(mul, {x, m.constant(-*a)}) : Value{};
       }},
      // -(x - y) = y - x
      {"neg_of_difference",
       {neg},
       [](M m) {
         const Op* inner = m.as(m[0], sub);
         if (inner == nullptr) return Value{};
         const Value x = inner->operands[0], y = inner->operands[1];
         return m.emit(sub, {y, x});
       }},
      // (x · a) · b = x · (a · b), floats: one rounding instead of two, where a · b is a normal number
      {"mul_constants", {mul}, fold_factors},
      // x / 1 = x
      {"div_one", {div}, [](M m) { return when(m.is(m[1], 1), m[0]); }},
      // x / 2^k = x · 2^-k
      {"div_power_of_two", {div}, divide_by_power_of_two},

      // -(-x) = x
      {"neg_neg", {neg}, [](M m) { return m.inside(m[0], neg); }},
      // |-x| = |x|
      {"abs_neg",
       {abs},
       [](M m) {
         const Value x = m.inside(m[0], neg);
         return x ? m.emit(abs, {x}) : Value{};
       }},
      // ||x|| = |x|
      {"abs_abs", {abs}, [](M m) { return when(bool(m.inside(m[0], abs)), m[0]); }},
      // f(x, x) = x for max, min, and, or
      {"idempotent",
       {maximum, minimum, logical_and, logical_or},
       [](M m) { return when(m[0] == m[1], m[0]); }},

      // x^1 = x
      {"pow_one", {pow}, [](M m) { return when(m.is(m[1], 1), m[0]); }},
      // x^2 = x · x
      {"pow_two", {pow}, [](M m) { return m.is(m[1], 2) ? m.emit(mul, {m[0], m[0]}) : Value{}; }},
      // x^(1/2) = sqrt(x) on pow's domain
      {"pow_half", {pow}, [](M m) { return m.is(m[1], 0.5) ? m.emit(sqrt, {m[0]}) : Value{}; }},
      // x^(-1/2) = rsqrt(x) on pow's domain
      {"pow_minus_half", {pow}, [](M m) { return m.is(m[1], -0.5) ? m.emit(rsqrt, {m[0]}) : Value{}; }},
      // x^(-1) = 1 / x
      {"pow_minus_one",
       {pow},
       [](M m) { return m.is(m[1], -1) ? m.emit(div, {m.constant(1), m[0]}) : Value{}; }},

      // not not p = p
      {"not_not", {logical_not}, [](M m) { return m.inside(m[0], logical_not); }},
      // not (x = y) = (x ≠ y); not (x < y) = (x ≥ y) and the like for integers
      {"not_compare", {logical_not}, negated_comparison},
      // p and true = p,  p or false = p
      {"logical_neutral",
       {logical_and, logical_or},
       [](M m) { return when(m.is(m[1], m.op.code == logical_and ? 1 : 0), m[0]); }},
      // p and false = false,  p or true = true
      {"logical_absorbing",
       {logical_and, logical_or},
       [](M m) { return when(m.is(m[1], m.op.code == logical_and ? 0 : 1), m[1]); }},
      // select(true, x, y) = x,  select(false, x, y) = y
      {"select_constant",
       {select},
       [](M m) {
         const std::optional<double> p = m.splat(m[0]);
         return p ? m[*p != 0 ? 1 : 2] : Value{};
       }},
      // select(p, x, x) = x
      {"select_same", {select}, [](M m) { return when(m[1] == m[2], m[1]); }},
      // select(not p, x, y) = select(p, y, x)
      {"select_not",
       {select},
       [](M m) {
         const Value p = m.inside(m[0], logical_not);
         return p ? m.emit(select, {p, m[2], m[1]}) : Value{};
       }},

      // cast x to its own dtype = x
      {"cast_same", {cast}, [](M m) { return when(m.type() == m.type(m[0]), m[0]); }},
      // cast(cast(x)) = cast(x), where the dtype between holds all of x's values
      {"cast_cast", {cast}, cast_of_cast},
      // stop_gradient(x) = x: the passes run after autodiff
      {"stop_gradient", {stop_gradient}, [](M m) { return m[0]; }},

      // f(broadcast x, a, broadcast y) = broadcast f(x, a, y)
      {"pointwise_of_broadcasts", pointwise_ops(), pointwise_of_broadcasts},
  };
}

}  // namespace rewire::ir

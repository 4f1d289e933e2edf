// Cases of pointwise ops. Each keeps to where its op is defined and, if differentiable, smooth.
#include <cmath>
#include <limits>

#include "ir/opcodes.h"
#include "tests/support/case_builder.h"

namespace rewire::testing {

using namespace rewire::ir;

namespace {

Tensor unary_input(CaseBuilder& c, Opcode code, const Shape& shape) {
  switch (code) {
    case Opcode::abs:
      return c.away_from_zero(shape);
    case Opcode::log:
    case Opcode::sqrt:
    case Opcode::rsqrt:
      return c.tensor(shape, 0.1, 4);
    default:
      return c.tensor(shape, -4, 4);
  }
}

/// b such that |a - b| >= 0.1 everywhere: maximum and minimum have a kink at a == b.
Tensor apart_from(CaseBuilder& c, const Tensor& a) {
  Tensor b = c.away_from_zero(a.type.shape);
  for (std::size_t i = 0; i < b.data.size(); ++i) b.data[i] = round_to(DType::f32, a.data[i] + b.data[i]);
  return b;
}

/// A positive base and any exponent, or any base and a whole exponent.
void pow_case(CaseBuilder& c, const Shape& shape) {
  if (c.chance(0.5)) {
    c.apply(Opcode::pow, {c.input(c.tensor(shape, 0.2, 3)), c.input(c.tensor(shape, -2, 2))});
    return;
  }
  Tensor exponent = c.tensor(shape);
  for (double& value : exponent.data) value = static_cast<double>(c.integer(-3, 4));
  const Value base = c.input(c.away_from_zero(shape, 0.5, 2));
  c.apply(Opcode::pow, {base, c.input(exponent, false)});
}

}  // namespace

void unary_case(CaseBuilder& c, Opcode code) {
  const Shape shape = c.shape(1, 4);
  const bool takes_integers = code == Opcode::neg || code == Opcode::abs || code == Opcode::stop_gradient;
  if (takes_integers && c.chance(0.25)) {
    c.apply(code, {c.input(c.tensor({c.pick({DType::i32, DType::i64}), shape}, -100, 100))});
    return;
  }
  // floor has steps and stop_gradient no gradient by definition, so differences cannot check them.
  const bool smooth = code != Opcode::floor && code != Opcode::stop_gradient;
  c.apply(code, {c.input(unary_input(c, code, shape), smooth)});
}

void binary_case(CaseBuilder& c, Opcode code) {
  const Shape shape = c.shape(1, 4);
  if (code == Opcode::pow) return pow_case(c, shape);
  if (code != Opcode::div && c.chance(0.25)) {
    const TensorType type{c.pick({DType::i32, DType::i64}), shape};
    c.apply(code, {c.input(c.tensor(type, -100, 100)), c.input(c.tensor(type, -100, 100))});
    return;
  }
  const Tensor a = c.tensor(shape);
  const bool kinked = code == Opcode::maximum || code == Opcode::minimum;
  const Tensor b = kinked                ? apart_from(c, a)
                   : code == Opcode::div ? c.away_from_zero(shape, 0.3)
                                         : c.tensor(shape);
  c.apply(code, {c.input(a), c.input(b)});
}

void logical_case(CaseBuilder& c, Opcode code) {
  const TensorType type{DType::i1, c.shape(1, 4)};
  if (code == Opcode::logical_not) {
    c.apply(code, {c.input(c.tensor(type))});
  } else {
    c.apply(code, {c.input(c.tensor(type)), c.input(c.tensor(type))});
  }
}

void isfinite_case(CaseBuilder& c, Opcode code) {
  Tensor x = c.tensor(c.shape(1, 4));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (double& value : x.data) {
    if (c.chance(0.3)) value = c.pick({kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()});
  }
  c.apply(code, {c.input(x, false)});
}

void cast_case(CaseBuilder& c, Opcode code) {
  static constexpr std::initializer_list<DType> kAll = {DType::f64, DType::f32, DType::bf16, DType::f16,
                                                        DType::i64, DType::i32, DType::u8,   DType::i1};
  const DType from = c.dtype(kAll);
  const DType to = c.pick(kAll);
  const bool unsigned_side = from == DType::u8 || to == DType::u8;
  Tensor x = c.tensor({from, c.shape(1, 4)}, unsigned_side ? 0 : -100, 100);
  for (double& value : x.data) {
    if (c.chance(0.1)) value = 0;
    // Between floats the value must be exact in both, since the evaluator rounds nothing.
    if (is_float(to)) value = round_to(from, round_to(to, value));
  }
  c.apply(code, {c.input(x, is_float(to))}, {}, TensorType{to, x.type.shape});
}

void compare_case(CaseBuilder& c, Opcode code) {
  const TensorType type{c.dtype({DType::i32, DType::i64, DType::u8, DType::i1}), c.shape(1, 4)};
  const Tensor a = c.tensor(type);
  Tensor b = c.tensor(type);
  for (std::size_t i = 0; i < b.data.size(); ++i) {
    if (c.chance(0.3)) b.data[i] = a.data[i];
  }
  const std::string direction = c.pick({"lt", "le", "gt", "ge", "eq", "ne"});
  c.apply(code, {c.input(a, false), c.input(b, false)}, {{"direction", direction}});
}

void select_case(CaseBuilder& c, Opcode code) {
  const Shape shape = c.shape(1, 4);
  const TensorType type{c.dtype({DType::i32, DType::i64, DType::i1}), shape};
  const Value condition = c.input(c.tensor({DType::i1, shape}));
  const Value if_true = c.input(c.tensor(type));
  c.apply(code, {condition, if_true, c.input(c.tensor(type))});
}

}  // namespace rewire::testing

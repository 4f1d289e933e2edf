// VJPs of the pointwise ops: g is dL/dy, y the op's result, x (or a, b) its operands.
#include <numbers>
#include <string_view>

#include "ir/opcodes.h"
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {
namespace {

Value zeros_like(Builder& b, Value x) {
  const TensorType type = b.type(x);
  return b.constant(0.0, type.dtype, type.shape);
}

Value square(Builder& b, Value x) {
  return b.mul(x, x);
}

/// Returns g where `a direction other` holds, half of g where a = other, else 0.
Value winner_share(Builder& b, std::string_view direction, Value g, Value a, Value other) {
  const Value half = b.mul(g, 0.5);
  const Value tie = b.select(b.compare("eq", a, other), half, zeros_like(b, g));
  return b.select(b.compare(direction, a, other), g, tie);
}

}  // namespace

void vjp_neg(VjpContext& c) {  // -g
  c.accumulate(0, c.builder.unary(Opcode::neg, c.cotangent()));
}

void vjp_abs(VjpContext& c) {  // g sign(x), 0 at x = 0
  Builder& b = c.builder;
  const Value g = c.cotangent(), x = c.operand(0), zero = zeros_like(b, x);
  const Value at_most_zero = b.select(b.compare("lt", x, zero), b.unary(Opcode::neg, g), zero);
  c.accumulate(0, b.select(b.compare("gt", x, zero), g, at_most_zero));
}

void vjp_exp(VjpContext& c) {  // g y
  c.accumulate(0, c.builder.mul(c.cotangent(), c.result()));
}

void vjp_log(VjpContext& c) {  // g / x
  c.accumulate(0, c.builder.div(c.cotangent(), c.operand(0)));
}

void vjp_sqrt(VjpContext& c) {  // g / (2 y)
  c.accumulate(0, c.builder.div(c.builder.mul(c.cotangent(), 0.5), c.result()));
}

void vjp_rsqrt(VjpContext& c) {  // -g y^3 / 2
  Builder& b = c.builder;
  const Value y = c.result();
  c.accumulate(0, b.mul(b.mul(c.cotangent(), -0.5), b.mul(y, square(b, y))));
}

void vjp_sin(VjpContext& c) {  // g cos(x)
  Builder& b = c.builder;
  c.accumulate(0, b.mul(c.cotangent(), b.unary(Opcode::cos, c.operand(0))));
}

void vjp_cos(VjpContext& c) {  // -g sin(x)
  Builder& b = c.builder;
  c.accumulate(0, b.unary(Opcode::neg, b.mul(c.cotangent(), b.unary(Opcode::sin, c.operand(0)))));
}

void vjp_tanh(VjpContext& c) {  // g - g y^2
  Builder& b = c.builder;
  const Value g = c.cotangent();
  c.accumulate(0, b.sub(g, b.mul(g, square(b, c.result()))));
}

void vjp_erf(VjpContext& c) {  // g 2/sqrt(pi) exp(-x^2)
  Builder& b = c.builder;
  const Value bell = b.unary(Opcode::exp, b.unary(Opcode::neg, square(b, c.operand(0))));
  c.accumulate(0, b.mul(b.mul(c.cotangent(), 2.0 * std::numbers::inv_sqrtpi), bell));
}

void vjp_sigmoid(VjpContext& c) {  // (g y) - (g y) y
  Builder& b = c.builder;
  const Value gy = b.mul(c.cotangent(), c.result());
  c.accumulate(0, b.sub(gy, b.mul(gy, c.result())));
}

void vjp_cast(VjpContext& c) {  // float to float only: other casts have an end without gradient
  c.accumulate(0, c.builder.cast(c.cotangent(), c.builder.type(c.operand(0)).dtype));
}

void vjp_add(VjpContext& c) {  // g, g
  c.accumulate(0, c.cotangent());
  c.accumulate(1, c.cotangent());
}

void vjp_sub(VjpContext& c) {  // g, -g
  c.accumulate(0, c.cotangent());
  if (c.needs(1)) c.accumulate(1, c.builder.unary(Opcode::neg, c.cotangent()));
}

void vjp_mul(VjpContext& c) {  // g b, g a
  if (c.needs(0)) c.accumulate(0, c.builder.mul(c.cotangent(), c.operand(1)));
  if (c.needs(1)) c.accumulate(1, c.builder.mul(c.cotangent(), c.operand(0)));
}

void vjp_div(VjpContext& c) {  // g / b, -(g / b) y
  Builder& b = c.builder;
  const Value da = b.div(c.cotangent(), c.operand(1));
  c.accumulate(0, da);
  if (c.needs(1)) c.accumulate(1, b.unary(Opcode::neg, b.mul(da, c.result())));
}

void vjp_maximum(VjpContext& c) {
  const Value g = c.cotangent(), left = c.operand(0), right = c.operand(1);
  if (c.needs(0)) c.accumulate(0, winner_share(c.builder, "gt", g, left, right));
  if (c.needs(1)) c.accumulate(1, winner_share(c.builder, "gt", g, right, left));
}

void vjp_minimum(VjpContext& c) {
  const Value g = c.cotangent(), left = c.operand(0), right = c.operand(1);
  if (c.needs(0)) c.accumulate(0, winner_share(c.builder, "lt", g, left, right));
  if (c.needs(1)) c.accumulate(1, winner_share(c.builder, "lt", g, right, left));
}

// dx = g p x^(p-1). It is set to 0 for p = 0, since x^0 is constant, also at x = 0. dp = g y ln x. It is set
// to 0 for x <= 0: lim x^p ln x = 0 for p > 0, and a negative base is defined only for whole exponents.
void vjp_pow(VjpContext& c) {
  Builder& b = c.builder;
  const Value g = c.cotangent(), x = c.operand(0), p = c.operand(1), zero = zeros_like(b, x);
  if (c.needs(0)) {
    const Value slope = b.mul(p, b.binary(Opcode::pow, x, b.sub(p, 1.0)));
    c.accumulate(0, b.mul(g, b.select(b.compare("eq", p, zero), zero, slope)));
  }
  if (c.needs(1)) {
    const Value positive = b.compare("gt", x, zero);
    const Value one = b.constant(1.0, b.type(x).dtype, b.shape(x));
    const Value logarithm = b.unary(Opcode::log, b.select(positive, x, one));
    c.accumulate(1, b.select(positive, b.mul(g, b.mul(c.result(), logarithm)), zero));
  }
}

void vjp_select(VjpContext& c) {  // g for the operand that was selected, else 0
  Builder& b = c.builder;
  const Value g = c.cotangent(), zero = zeros_like(b, g);
  if (c.needs(1)) c.accumulate(1, b.select(c.operand(0), g, zero));
  if (c.needs(2)) c.accumulate(2, b.select(c.operand(0), zero, g));
}

}  // namespace rewire::ir

// See the header: one function for each piece, written in builder ops.
#include "ir/ops/composite_parts.h"

#include <numbers>

namespace rewire::ir {

Value widen(Builder& b, Value x) {
  const DType dtype = b.type(x).dtype;
  return dtype == DType::bf16 || dtype == DType::f16 ? b.cast(x, DType::f32) : x;
}

RowMoments emit_row_moments(Builder& b, Value x, double epsilon) {
  const Value centered = b.sub(x, b.mean(x, {-1}));
  const Value variance = b.mean(b.mul(centered, centered), {-1});
  return {centered, b.unary(Opcode::rsqrt, b.add(variance, epsilon))};
}

ShiftedExponentials emit_shifted_exponentials(Builder& b, Value x, std::int64_t axis) {
  const Value shifted = b.sub(x, b.max(x, {axis}));
  const Value exponentials = b.unary(Opcode::exp, shifted);
  return {shifted, exponentials, b.sum(exponentials, {axis})};
}

Value emit_normalised(Builder& b, const ShiftedExponentials& parts) {
  const Value one = b.constant(1.0, b.type(parts.sum).dtype, b.shape(parts.sum));
  return b.mul(parts.exponentials, b.div(one, parts.sum));  // one division a row
}

Value emit_one_hot(Builder& b, Value labels, std::int64_t classes) {
  const TensorType type = b.type(labels);
  const std::int64_t rows = type.shape[0];
  const Value column =
      b.emit(Opcode::iota, {}, {{"axis", std::int64_t{1}}}, TensorType{type.dtype, {rows, classes}});
  return b.compare("eq", column, b.broadcast(b.reshape(labels, {rows, 1}), {rows, classes}));
}

Value emit_normal_cdf(Builder& b, Value x) {
  return b.mul(b.add(b.unary(Opcode::erf, b.mul(x, 1.0 / std::numbers::sqrt2)), 1.0), 0.5);
}

Value emit_gelu_tanh(Builder& b, Value x) {
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const Value cubic = b.mul(b.mul(x, b.mul(x, x)), kGeluCubic);
  return b.unary(Opcode::tanh, b.mul(b.add(x, cubic), scale));
}

}  // namespace rewire::ir

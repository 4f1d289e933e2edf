// Implements ir/ops/composite_parts.h: one function per piece, written in builder ops.
#include "ir/ops/composite_parts.h"

#include <numbers>

#include "ir/opcodes.h"
#include "ir/ops/axes.h"

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

Value emit_reciprocal_rms(Builder& b, Value x, double epsilon) {
  return b.unary(Opcode::rsqrt, b.add(b.mean(b.mul(x, x), {-1}), epsilon));
}

Ints other_axes(std::int64_t axis, int rank) {
  Ints axes;
  for (int i = 0; i < rank; ++i) {
    if (i != normal_axis(axis, rank)) axes.push_back(i);
  }
  return axes;
}

Value along_axis(Builder& b, Value vector, std::int64_t axis, int rank) {
  Shape shape(static_cast<std::size_t>(rank), 1);
  shape[static_cast<std::size_t>(normal_axis(axis, rank))] = b.shape(vector)[0];
  return b.reshape(vector, std::move(shape));
}

ChannelMoments emit_channel_moments(Builder& b, Value x, std::int64_t axis, double epsilon) {
  const Ints others = other_axes(axis, b.type(x).rank());
  const Value mean = b.mean(x, others);
  const Value centered = b.sub(x, mean);
  const Value variance = b.mean(b.mul(centered, centered), others);
  return {centered, mean, variance, b.unary(Opcode::rsqrt, b.add(variance, epsilon))};
}

std::int64_t batch_norm_count(const TensorType& x, std::int64_t axis) {
  const std::int64_t channels = x.shape[static_cast<std::size_t>(normal_axis(axis, x.rank()))];
  return channels == 0 ? 0 : x.elements() / channels;
}

double unbiased_factor(std::int64_t count) {
  return count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1;
}

ChannelMoments emit_batch_norm_moments(Builder& b, const Op& op) {
  const Value x = widen(b, op.operands[0]), training = op.operands[5];
  const std::int64_t axis = op.attributes.get_int("axis");
  const double epsilon = op.attributes.get_double("epsilon");
  const int rank = b.type(x).rank();
  const ChannelMoments batch = emit_channel_moments(b, x, axis, epsilon);
  const Value running_mean = along_axis(b, widen(b, op.operands[3]), axis, rank);
  const Value running_variance = along_axis(b, widen(b, op.operands[4]), axis, rank);
  const Value mean = b.select(training, batch.mean, running_mean);
  const Value variance = b.select(training, batch.variance, running_variance);
  return {b.sub(x, mean), mean, variance, b.unary(Opcode::rsqrt, b.add(variance, epsilon))};
}

ShiftedExponentials emit_shifted_exponentials(Builder& b, Value x, std::int64_t axis) {
  const Value shifted = b.sub(x, b.max(x, {axis}));
  const Value exponentials = b.unary(Opcode::exp, shifted);
  return {shifted, exponentials, b.sum(exponentials, {axis})};
}

Value emit_normalised(Builder& b, const ShiftedExponentials& parts) {
  const Value one = b.constant(1.0, b.type(parts.sum).dtype, b.shape(parts.sum));
  return b.mul(parts.exponentials, b.div(one, parts.sum));  // one division per row
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

// Decompositions of the composite ops into smaller ops. They mean the same as the eval_* functions. They
// compute 16-bit operands in f32 and narrow the result.
#include <algorithm>
#include <cmath>

#include "ir/opcodes.h"
#include "ir/ops/composite_parts.h"
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"
#include "ir/residual.h"

namespace rewire::ir {
namespace {

DType result_dtype(Builder& b, const Op& op) {
  return b.type(op.results[0]).dtype;
}

/// Returns the keep mask u >= p, of dtype i1 and of this shape. u is drawn on the grid 2^-24. p is rounded
/// up to that grid, which changes no comparison and makes p exact in f32.
Value draw_keep_mask(Builder& b, const Op& op, Shape shape) {
  constexpr double kGrid = 0x1p-24;
  const double threshold = std::ceil(op.attributes.get_double("probability") / kGrid) * kGrid;
  const TensorType type{DType::f32, std::move(shape)};
  const Value u = b.emit(Opcode::random_uniform, {op.operands[1], op.operands[2]},
                         {{"stream", op.attributes.get_string("stream")}}, type);
  return b.compare("ge", u, b.constant(threshold, type.dtype, type.shape));
}

}  // namespace

// y = (x - mean) rstd weight + bias
std::vector<Value> decompose_layer_norm(Builder& b, const Op& op) {
  const RowMoments row = emit_row_moments(b, widen(b, op.operands[0]), op.attributes.get_double("epsilon"));
  Value y = b.mul(row.centered, row.rstd);
  if (op.operands.size() > 1) y = b.mul(y, widen(b, op.operands[1]));
  if (op.operands.size() > 2) y = b.add(y, widen(b, op.operands[2]));
  return {b.cast(y, result_dtype(b, op))};
}

std::vector<Value> decompose_rms_norm(Builder& b, const Op& op) {
  const Value x = widen(b, op.operands[0]);
  Value y = b.mul(x, emit_reciprocal_rms(b, x, op.attributes.get_double("epsilon")));
  if (op.operands.size() > 1) y = b.mul(y, widen(b, op.operands[1]));
  return {b.cast(y, result_dtype(b, op))};
}

// y = (x - mean) rstd weight + bias; next = running + momentum (the batch's - running)
std::vector<Value> decompose_batch_norm(Builder& b, const Op& op) {
  const std::int64_t axis = op.attributes.get_int("axis");
  const double momentum = op.attributes.get_double("momentum");
  const TensorType type = b.type(op.operands[0]);
  const ChannelMoments moments = emit_batch_norm_moments(b, op);
  const auto along = [&](std::size_t i) {
    return along_axis(b, widen(b, op.operands[i]), axis, type.rank());
  };
  const Value scale = b.mul(moments.rstd, along(1));
  const Value y = b.add(b.mul(moments.centered, scale), along(2));

  const std::int64_t channels = b.shape(op.operands[1])[0];
  const double unbiased = unbiased_factor(batch_norm_count(type, axis));
  const auto next = [&](std::size_t i, Value batch, double factor) {
    const Value running = widen(b, op.operands[i]);
    const Value step = b.mul(b.sub(b.mul(b.reshape(batch, {channels}), factor), running), momentum);
    const Value zero = b.constant(0.0, b.type(step).dtype);
    return b.cast(b.add(running, b.select(op.operands[5], step, zero)), type.dtype);
  };
  return {b.cast(y, type.dtype), next(3, moments.mean, 1), next(4, moments.variance, unbiased)};
}

// y = exp(x - max) / sum(exp(x - max))
std::vector<Value> decompose_softmax(Builder& b, const Op& op) {
  const Value x = widen(b, op.operands[0]);
  const Value y = emit_normalised(b, emit_shifted_exponentials(b, x, op.attributes.get_int("axis")));
  return {b.cast(y, result_dtype(b, op))};
}

// y = x cdf(x), or x (1 + tanh(...)) / 2
std::vector<Value> decompose_gelu(Builder& b, const Op& op) {
  const Value x = widen(b, op.operands[0]);
  const bool approximate = op.attributes.get_string("approximate") == "tanh";
  const Value gate = approximate ? b.mul(b.add(emit_gelu_tanh(b, x), 1.0), 0.5) : emit_normal_cdf(b, x);
  return {b.cast(b.mul(x, gate), result_dtype(b, op))};
}

// y = x sigmoid(x)
std::vector<Value> decompose_silu(Builder& b, const Op& op) {
  const Value x = widen(b, op.operands[0]);
  return {b.cast(b.mul(x, b.unary(Opcode::sigmoid, x)), result_dtype(b, op))};
}

// y = max(x, 0)
std::vector<Value> decompose_relu(Builder& b, const Op& op) {
  const Value x = op.operands[0];
  const TensorType type = b.type(x);
  return {b.binary(Opcode::maximum, x, b.constant(0.0, type.dtype, type.shape))};
}

// With z = logits - max: loss = log(sum(exp(z))) - (1 - s) z[label] - s mean(z). The target sums to one, so
// the maximum cancels.
std::vector<Value> decompose_cross_entropy(Builder& b, const Op& op) {
  const ShiftedExponentials parts = emit_shifted_exponentials(b, widen(b, op.operands[0]), -1);
  const TensorType type = b.type(parts.shifted);
  const double smoothing = op.attributes.get_double("label_smoothing");

  const Value zero = b.constant(0.0, type.dtype, type.shape);
  const Value picked =
      b.sum(b.select(emit_one_hot(b, op.operands[1], type.shape[1]), parts.shifted, zero), {-1});
  Value loss = b.unary(Opcode::log, parts.sum);
  if (smoothing == 0.0) {
    loss = b.sub(loss, picked);
  } else {
    loss = b.sub(loss, b.mul(picked, 1.0 - smoothing));
    loss = b.sub(loss, b.mul(b.mean(parts.shifted, {-1}), smoothing));
  }
  return {b.cast(b.reshape(loss, {type.shape[0]}), result_dtype(b, op))};
}

// select(training, where(u >= p, x / (1 - p), 0), x). drop_path draws one u per index of axis 0.
std::vector<Value> decompose_dropout(Builder& b, const Op& op) {
  const Value x = op.operands[0];
  const double probability = op.attributes.get_double("probability");
  if (probability == 0.0) return {x};
  const TensorType type = b.type(x);
  Shape mask_shape = type.shape;
  if (op.code == Opcode::drop_path) std::fill(mask_shape.begin() + 1, mask_shape.end(), 1);

  const Value keep = b.broadcast(draw_keep_mask(b, op, mask_shape), type.shape);
  const Value scaled = b.mul(x, 1.0 / (1.0 - probability));
  const Value dropped = b.select(keep, scaled, b.constant(0.0, type.dtype, type.shape));
  return {b.select(b.broadcast(op.operands[3], type.shape), dropped, x)};
}

// Adds the terms from left to right. The result is zero if a rewrite has cleared all of them.
std::vector<Value> decompose_residual(Builder& b, const Op& op) {
  const TensorType type = b.type(op.results[0]);
  if (op.operands.size() == kFirstJoinTerm) return {b.broadcast(b.constant(0.0, type.dtype), type.shape)};
  Value total = op.operands[kFirstJoinTerm];
  for (std::size_t i = kFirstJoinTerm + 1; i < op.operands.size(); ++i) total = b.add(total, op.operands[i]);
  return {total};
}

}  // namespace rewire::ir

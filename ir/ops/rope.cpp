// Rotary position embeddings (Su et al., Neurocomputing 2024): pair i of a token at position p is turned by
// p theta^(-2 i / D). Angles are in f64: in f32 those of late tokens would have few digits after the point.
#include "ir/ops/rope.h"

#include <cmath>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/checks.h"
#include "ir/ops/composite_parts.h"
#include "ir/ops/functions.h"

namespace rewire::ir {
namespace {

/// Returns theta^(-2 i / D).
double frequency(double theta, std::int64_t i, std::int64_t width) {
  return std::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(width));
}

struct Angles {
  Value sine, cosine;  // [1 or B, 1, N, D / 2]
};

Angles emit_angles(Builder& b, const Op& op, DType dtype) {
  const Shape shape = b.shape(op.operands[0]);
  const std::int64_t pairs = shape[3] / 2;
  const double theta = op.attributes.get_double("theta");
  const auto index = [&](std::int64_t axis, Shape of) {
    const TensorType type{DType::i32, std::move(of)};
    return b.cast(b.emit(Opcode::iota, {}, {{"axis", axis}}, type), DType::f64);
  };
  const Value pair = index(3, {1, 1, 1, pairs});
  const Value rate = b.unary(Opcode::exp, b.mul(pair, -2 * std::log(theta) / static_cast<double>(shape[3])));
  const Value position = op.operands.size() > 1
                             ? b.cast(b.reshape(op.operands[1], {shape[0], 1, shape[2], 1}), DType::f64)
                             : index(2, {1, 1, shape[2], 1});
  const Value angle = b.mul(position, rate);
  return {b.cast(b.unary(Opcode::sin, angle), dtype), b.cast(b.unary(Opcode::cos, angle), dtype)};
}

}  // namespace

Value emit_rotated(Builder& b, const Op& op, Value x, double direction) {
  const Shape shape = b.shape(x);
  const std::int64_t pairs = shape[3] / 2;
  const bool interleaved = op.attributes.get_bool("interleaved");
  const Shape halves = {shape[0], shape[1], shape[2], interleaved ? pairs : 2, interleaved ? 2 : pairs};
  const int axis = interleaved ? 4 : 3;
  const Value split = b.reshape(x, halves);
  Shape half = halves;
  half[static_cast<std::size_t>(axis)] = 1;
  const auto part = [&](std::int64_t i) {
    return b.reshape(b.slice(split, axis, i, i + 1), {shape[0], shape[1], shape[2], pairs});
  };
  const Value first = part(0), second = part(1);
  const auto [sine, cosine] = emit_angles(b, op, b.type(x).dtype);
  const Value turned = direction < 0 ? b.unary(Opcode::neg, sine) : sine;
  const Value parts[] = {b.reshape(b.sub(b.mul(first, cosine), b.mul(second, turned)), half),
                         b.reshape(b.add(b.mul(second, cosine), b.mul(first, turned)), half)};
  return b.reshape(b.concat(parts, axis), shape);
}

std::vector<TensorType> infer_rope(const InferContext& context) {
  const TensorType& x = context.operand(0);
  require_float(context, 0);
  if (x.rank() != 4 || x.shape[3] % 2 != 0)
    user_error("x must be [batch, heads, tokens, width] of even width");
  if (context.operands.size() > 1)
    require_type(context, 1, "the positions (operand 1)", {DType::i32, {x.shape[0], x.shape[2]}});
  const double theta = context.attributes.get_double("theta");
  if (!(theta > 0) || !std::isfinite(theta)) user_error("theta must be positive, not {}", theta);
  return {x};
}

void eval_rope(EvalContext& context) {
  const Tensor& x = context.in(0);
  const Shape& shape = x.type.shape;
  const bool interleaved = context.op.attributes.get_bool("interleaved");
  const double theta = context.op.attributes.get_double("theta");
  const std::int64_t tokens = shape[2], width = shape[3], pairs = width / 2;
  for (std::int64_t row = 0; row < shape[0] * shape[1] * tokens; ++row) {
    const std::int64_t token = row % tokens, batch = row / tokens / shape[1];
    const double position = context.operands.size() > 1
                                ? context.in(1).data[static_cast<std::size_t>(batch * tokens + token)]
                                : static_cast<double>(token);
    for (std::int64_t i = 0; i < pairs; ++i) {
      const auto first = static_cast<std::size_t>(row * width + (interleaved ? 2 * i : i));
      const std::size_t second = first + static_cast<std::size_t>(interleaved ? 1 : pairs);
      const double angle = position * frequency(theta, i, width);
      const double sine = std::sin(angle), cosine = std::cos(angle);
      context.out().data[first] = x.data[first] * cosine - x.data[second] * sine;
      context.out().data[second] = x.data[second] * cosine + x.data[first] * sine;
    }
  }
}

std::vector<Value> decompose_rope(Builder& b, const Op& op) {
  const DType dtype = b.type(op.operands[0]).dtype;
  return {b.cast(emit_rotated(b, op, widen(b, op.operands[0]), 1), dtype)};
}

}  // namespace rewire::ir

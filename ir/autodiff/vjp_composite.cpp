// VJPs of the composite ops, each in a numerically stable form. They use the same pieces as the
// decompositions (ir/ops/composite_parts.h). g is dL/dy. The rules widen 16-bit values.
#include <array>
#include <numbers>

#include "ir/opcodes.h"
#include "ir/ops/attention.h"
#include "ir/ops/composite_parts.h"
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"
#include "ir/ops/rope.h"

namespace rewire::ir {
namespace {

/// Casts a gradient that was computed in a wider dtype to operand i's dtype, and accumulates it.
void accumulate_narrowed(VjpContext& c, std::size_t i, Value gradient) {
  c.accumulate(i, c.builder.cast(gradient, c.builder.type(c.operand(i)).dtype));
}

Value add_present(Builder& b, Value left, Value right) {
  if (!left) return right;
  return right ? b.add(left, right) : left;
}

}  // namespace

// With xhat = (x - mean) rstd and h = g weight (h = g without a weight), and means over the row:
//   dx = rstd (h - mean(h) - xhat mean(h xhat))
//   dweight = sum over rows of g xhat,   dbias = sum over rows of g
void vjp_layer_norm(VjpContext& c) {
  Builder& b = c.builder;
  const bool has_weight = c.op.operands.size() > 1, has_bias = c.op.operands.size() > 2;
  const Value g = widen(b, c.cotangent());
  if (has_bias && c.needs(2)) {
    const Shape bias_shape = b.shape(c.operand(2));
    accumulate_narrowed(c, 2, b.sum_to(g, bias_shape));
  }
  if (!c.needs(0) && !(has_weight && c.needs(1))) return;

  const RowMoments row = emit_row_moments(b, widen(b, c.operand(0)), c.op.attributes.get_double("epsilon"));
  const Value xhat = b.mul(row.centered, row.rstd);
  if (has_weight && c.needs(1)) {
    const Shape weight_shape = b.shape(c.operand(1));
    accumulate_narrowed(c, 1, b.sum_to(b.mul(g, xhat), weight_shape));
  }
  if (!c.needs(0)) return;
  const Value h = has_weight ? b.mul(g, widen(b, c.operand(1))) : g;
  const Value along_xhat = b.mul(xhat, b.mean(b.mul(h, xhat), {-1}));
  accumulate_narrowed(c, 0, b.mul(b.sub(b.sub(h, b.mean(h, {-1})), along_xhat), row.rstd));
}

// With r = 1 / rms and xhat = x r: dx = r (h - xhat mean(h xhat)), with h and dweight as in layer_norm.
void vjp_rms_norm(VjpContext& c) {
  Builder& b = c.builder;
  const bool has_weight = c.op.operands.size() > 1;
  const Value g = widen(b, c.cotangent()), x = widen(b, c.operand(0));
  const Value r = emit_reciprocal_rms(b, x, c.op.attributes.get_double("epsilon"));
  const Value xhat = b.mul(x, r);
  if (has_weight && c.needs(1)) {
    const Shape weight_shape = b.shape(c.operand(1));
    accumulate_narrowed(c, 1, b.sum_to(b.mul(g, xhat), weight_shape));
  }
  if (!c.needs(0)) return;
  const Value h = has_weight ? b.mul(g, widen(b, c.operand(1))) : g;
  accumulate_narrowed(c, 0, b.mul(b.sub(h, b.mul(xhat, b.mean(b.mul(h, xhat), {-1}))), r));
}

// A rotation's adjoint is the rotation by the opposite angle: of -x's sine.
void vjp_rope(VjpContext& c) {
  accumulate_narrowed(c, 0, emit_rotated(c.builder, c.op, widen(c.builder, c.cotangent()), -1));
}

// xhat, rstd and h are as in layer_norm, with means over all axes but the channel axis.
// Training: dx = rstd (h - mean(h) - xhat mean(h xhat)). Running moments are constants: then dx = rstd h.
// In training, the cotangents of the next running moments add the following, where n' / n makes the variance
// unbiased: momentum (g_mean + 2 (x - mean) g_variance n' / n) / n.
void vjp_batch_norm(VjpContext& c) {
  Builder& b = c.builder;
  const std::int64_t axis = c.op.attributes.get_int("axis");
  const TensorType type = b.type(c.operand(0));
  const Ints others = other_axes(axis, type.rank());
  const ChannelMoments moments = emit_batch_norm_moments(b, c.op);
  const Value zero = b.constant(0.0, b.type(moments.centered).dtype);
  const auto in_training = [&](Value x) { return b.select(c.operand(5), x, zero); };
  Value dx;
  if (const Value narrow = c.cotangent(0)) {
    const Value g = widen(b, narrow), xhat = b.mul(moments.centered, moments.rstd);
    const Shape vector = b.shape(c.operand(1));
    const auto over_batch = [&](Value x) { return b.reshape(b.sum(x, others), vector); };
    if (c.needs(2)) accumulate_narrowed(c, 2, over_batch(g));
    if (c.needs(1)) accumulate_narrowed(c, 1, over_batch(b.mul(g, xhat)));
    // mean(h) = weight mean(g), so its sums are those of the gradients of bias and weight.
    const Value along_xhat = b.mul(xhat, in_training(b.mean(b.mul(g, xhat), others)));
    const Value inner = b.sub(b.sub(g, in_training(b.mean(g, others))), along_xhat);
    dx = b.mul(inner, b.mul(moments.rstd, along_axis(b, widen(b, c.operand(1)), axis, type.rank())));
  }
  const double share =
      c.op.attributes.get_double("momentum") / static_cast<double>(batch_norm_count(type, axis));
  const auto through = [&](std::size_t i, const auto& slope) {
    if (!c.cotangent(i)) return;
    const Value g = b.mul(along_axis(b, widen(b, c.cotangent(i)), axis, type.rank()), share);
    dx = add_present(b, dx, in_training(slope(g)));
  };
  through(1, [&](Value g) { return b.broadcast(g, type.shape); });
  through(2, [&](Value g) {
    return b.mul(moments.centered, b.mul(g, 2 * unbiased_factor(batch_norm_count(type, axis))));
  });
  if (dx && c.needs(0)) accumulate_narrowed(c, 0, dx);
}

// dx = y (g - sum(g y))
void vjp_softmax(VjpContext& c) {
  Builder& b = c.builder;
  const Value g = widen(b, c.cotangent()), y = widen(b, c.result());
  const Value inner = b.sum(b.mul(g, y), {c.op.attributes.get_int("axis")});
  accumulate_narrowed(c, 0, b.mul(y, b.sub(g, inner)));
}

// approximate = none: dx = g (cdf(x) + x pdf(x)), with the normal distribution's cdf and pdf.
// approximate = tanh: with t = tanh(u(x)), dx = g ((1 + t) + x (1 - t^2) u'(x)) / 2,
// u' = sqrt(2/pi) (1 + 3 cubic x^2).
void vjp_gelu(VjpContext& c) {
  Builder& b = c.builder;
  const Value x = widen(b, c.operand(0)), g = widen(b, c.cotangent());
  const Value square = b.mul(x, x);
  Value slope;
  if (c.op.attributes.get_string("approximate") == "tanh") {
    const Value t = emit_gelu_tanh(b, x);
    const Value du =
        b.mul(b.add(b.mul(square, 3.0 * kGeluCubic), 1.0), std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    const Value one_less_square = b.add(b.unary(Opcode::neg, b.mul(t, t)), 1.0);
    slope = b.mul(b.add(b.add(t, 1.0), b.mul(b.mul(x, one_less_square), du)), 0.5);
  } else {
    const double height = std::numbers::inv_sqrtpi / std::numbers::sqrt2;  // 1 / sqrt(2 pi)
    const Value pdf = b.mul(b.unary(Opcode::exp, b.mul(square, -0.5)), height);
    slope = b.add(emit_normal_cdf(b, x), b.mul(x, pdf));
  }
  accumulate_narrowed(c, 0, b.mul(g, slope));
}

// With s = sigmoid(x) and y = x s: dx = g (s + y (1 - s)).
void vjp_silu(VjpContext& c) {
  Builder& b = c.builder;
  const Value x = widen(b, c.operand(0)), s = b.unary(Opcode::sigmoid, x);
  const Value y = b.mul(x, s);
  const Value slope = b.add(s, b.sub(y, b.mul(y, s)));
  accumulate_narrowed(c, 0, b.mul(widen(b, c.cotangent()), slope));
}

// dx = g where x > 0, else 0. So it is also 0 where x is 0 or NaN.
void vjp_relu(VjpContext& c) {
  Builder& b = c.builder;
  const TensorType type = b.type(c.operand(0));
  const Value zero = b.constant(0.0, type.dtype, type.shape);
  c.accumulate(0, b.select(b.compare("gt", c.operand(0), zero), c.cotangent(), zero));
}

namespace {

using AttentionGradients = std::array<Value, 3>;  // of q, k, v

/// Returns the gradients through the log-sum-exp of the logits. With P = exp(logits - lse):
/// dq = scale (g P) k and dk = scale (g P)^T q. Few losses read the log-sum-exp, so this holds all of P.
AttentionGradients log_sum_exp_gradients(VjpContext& c, Value g) {
  Builder& b = c.builder;
  const Value q = c.operand(0), k = c.operand(1);
  const Shape queries = b.shape(q), keys = b.shape(k);
  const std::int64_t rows = queries[1] / keys[1] * queries[2];  // queries that read one key head
  const Value probability = b.unary(Opcode::exp, b.sub(emit_attention_logits(b, c.op), c.result(1)));
  const Value weighted =
      b.cast(b.mul(b.mul(probability, g), c.op.attributes.get_double("scale")), b.type(q).dtype);
  const Value grouped = b.reshape(weighted, {queries[0], keys[1], rows, keys[2]});
  return {b.reshape(b.matmul(grouped, k), queries),
          b.matmul(grouped, b.reshape(q, {queries[0], keys[1], rows, queries[3]}), true, false), Value{}};
}

/// Returns the gradient of attention's bias: P (g v^T - <g, o> + h), for gradients g of the output and h of the
/// log-sum-exp, summed over the axes along which the bias repeats. It holds all of P.
Value bias_gradient(VjpContext& c, Value bias) {
  Builder& b = c.builder;
  Value along_rows = c.cotangent(1), inside;
  if (const Value cotangent = c.cotangent(0)) {
    const Value g = widen(b, cotangent), v = widen(b, c.operand(2));
    const Shape shape = b.shape(g), values = b.shape(v), map = {shape[0], shape[1], shape[2], values[2]};
    const Value grouped = b.reshape(g, {shape[0], values[1], shape[1] / values[1] * shape[2], shape[3]});
    const Value carried = b.sum(b.mul(g, widen(b, c.result(0))), {-1});
    inside = b.reshape(b.matmul(grouped, v, false, true), map);
    along_rows = along_rows ? b.sub(along_rows, carried) : b.unary(Opcode::neg, carried);
  }
  const Value probability = b.unary(Opcode::exp, b.sub(emit_attention_logits(b, c.op), c.result(1)));
  return b.sum_to(b.mul(probability, inside ? b.add(inside, along_rows) : along_rows), b.shape(bias));
}

}  // namespace

void vjp_attention(VjpContext& c) {
  Builder& b = c.builder;
  AttentionGradients total;
  if (const Value g = c.cotangent(0)) {
    std::vector<Value> operands = {c.operand(0), c.operand(1), c.operand(2), c.result(0), c.result(1), g};
    operands.insert(operands.end(), c.op.operands.begin() + 3, c.op.operands.end());
    const std::vector<Value> gradients = b.emit_all(Opcode::attention_grad, operands, c.op.attributes);
    for (std::size_t i = 0; i < total.size(); ++i) total[i] = gradients[i];
  }
  if (const Value g = c.cotangent(1)) {
    const AttentionGradients more = log_sum_exp_gradients(c, g);
    for (std::size_t i = 0; i < total.size(); ++i) total[i] = add_present(b, total[i], more[i]);
  }
  for (std::size_t i = 0; i < total.size(); ++i) c.accumulate(i, total[i]);
  if (const int bias = attention_form(c.op).bias; bias >= 0 && c.needs(static_cast<std::size_t>(bias))) {
    const auto i = static_cast<std::size_t>(bias);
    c.accumulate(i, bias_gradient(c, c.operand(i)));
  }
}

// dlogits = g (softmax(logits) - target), target = (1 - s) one_hot + s / K.
void vjp_cross_entropy(VjpContext& c) {
  Builder& b = c.builder;
  const Value logits = widen(b, c.operand(0));
  const TensorType type = b.type(logits);
  const std::int64_t rows = type.shape[0], classes = type.shape[1];
  const double smoothing = c.op.attributes.get_double("label_smoothing");
  const double floor = smoothing / static_cast<double>(classes);

  const Value probability = emit_normalised(b, emit_shifted_exponentials(b, logits, -1));
  const Value target = b.select(emit_one_hot(b, c.operand(1), classes),
                                b.constant(1.0 - smoothing + floor, type.dtype, type.shape),
                                b.constant(floor, type.dtype, type.shape));
  const Value g = b.reshape(widen(b, c.cotangent()), {rows, 1});
  accumulate_narrowed(c, 0, b.mul(b.sub(probability, target), g));
}

// Dropout is linear in x for given draws, and its own adjoint: the same op on g draws the same mask again.
void vjp_dropout(VjpContext& c) {
  c.accumulate(0, c.builder.emit(c.op.code, {c.cotangent(), c.operand(1), c.operand(2), c.operand(3)},
                                 c.op.attributes));
}

}  // namespace rewire::ir

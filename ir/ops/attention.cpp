// Attention and its gradient, computed directly from their equations, one query row at a time:
//   s = scale q K^T, l = log sum exp s, p = exp(s - l), o = p V
//   dV += p^T do, dp = do V^T, ds = p (dp - <do, o>) scale, dq = ds K, dK += ds^T q
#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"

namespace rewire::ir {
namespace {

/// Returns row r of a tensor that is read as [rows, width].
const double* row(const Tensor& tensor, std::int64_t r) {
  return tensor.data.data() + r * tensor.type.shape.back();
}
double* row(Tensor& tensor, std::int64_t r) {
  return tensor.data.data() + r * tensor.type.shape.back();
}

double dot(const double* a, const double* b, std::int64_t width) {
  double total = 0;
  for (std::int64_t i = 0; i < width; ++i) total += a[i] * b[i];
  return total;
}

void add_scaled(double* to, double factor, const double* from, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) to[i] += factor * from[i];
}

/// The log-sum-exp l is in f32 at least: exp(s - l) in the backward pass needs that precision.
TensorType log_sum_exp_type(const TensorType& q) {
  const bool narrow = q.dtype == DType::bf16 || q.dtype == DType::f16;
  return {narrow ? DType::f32 : q.dtype, {q.shape[0], q.shape[1], q.shape[2], 1}};
}

void check_qkv(const InferContext& context) {
  const TensorType& q = context.operand(0);
  const TensorType& k = context.operand(1);
  require_float(context, 0);
  if (q.rank() != 4) user_error("q must be [batch, heads, tokens, width]");
  if (k.rank() != 4 || k.dtype != q.dtype || k.shape[0] != q.shape[0] || k.shape[1] != q.shape[1] ||
      k.shape[3] != q.shape[3]) {
    user_error("k must have q's dtype, batch, heads and width");
  }
  require_type(context, 2, "v", k);
  const double scale = context.attributes.get_double("scale");
  if (!std::isfinite(scale)) user_error("scale must be finite, not {}", scale);
}

/// Returns the multiply-adds of one product of [N, D]
/// query rows with the keys or the values, over all heads.
double product(const WorkContext& context) {
  return static_cast<double>(context.operands[0].elements()) *
         static_cast<double>(context.operands[1].shape[2]);
}

}  // namespace

std::vector<TensorType> infer_attention(const InferContext& context) {
  check_qkv(context);
  return {context.operand(0), log_sum_exp_type(context.operand(0))};
}

void eval_attention(EvalContext& context) {
  const Tensor& q = context.in(0);
  const Tensor& k = context.in(1);
  const Tensor& v = context.in(2);
  const double scale = context.op.attributes.get_double("scale");
  const std::int64_t queries = q.type.shape[2];
  const std::int64_t keys = k.type.shape[2];
  const std::int64_t width = q.type.shape[3];
  std::vector<double> logits(static_cast<std::size_t>(keys));
  for (std::int64_t i = 0; i < q.type.elements() / width; ++i) {
    const std::int64_t first_key = i / queries * keys;
    for (std::int64_t j = 0; j < keys; ++j) {
      logits[static_cast<std::size_t>(j)] = scale * dot(row(q, i), row(k, first_key + j), width);
    }
    const double largest = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    for (double logit : logits) total += std::exp(logit - largest);
    const double log_sum_exp = largest + std::log(total);
    for (std::int64_t j = 0; j < keys; ++j) {
      const double probability = std::exp(logits[static_cast<std::size_t>(j)] - log_sum_exp);
      add_scaled(row(context.out(0), i), probability, row(v, first_key + j), width);
    }
    context.out(1).data[static_cast<std::size_t>(i)] = log_sum_exp;
  }
}

// Two products: query key^T, and the attention map times value.
Work work_attention(const WorkContext& context) {
  return {4 * product(context), 2 * product(context)};
}

// Five products: one computes the map again, two give its gradients, and two give those of query and key.
Work work_attention_grad(const WorkContext& context) {
  return {10 * product(context), 5 * product(context)};
}

std::vector<TensorType> infer_attention_grad(const InferContext& context) {
  check_qkv(context);
  const TensorType& q = context.operand(0);
  require_type(context, 3, "the output (operand 3)", q);
  require_type(context, 4, "the log-sum-exp (operand 4)", log_sum_exp_type(q));
  require_type(context, 5, "the output's gradient (operand 5)", q);
  return {q, context.operand(1), context.operand(2)};
}

void eval_attention_grad(EvalContext& context) {
  const Tensor& q = context.in(0);
  const Tensor& k = context.in(1);
  const Tensor& v = context.in(2);
  const Tensor& output = context.in(3);
  const Tensor& log_sum_exp = context.in(4);
  const Tensor& d_output = context.in(5);
  const double scale = context.op.attributes.get_double("scale");
  const std::int64_t queries = q.type.shape[2];
  const std::int64_t keys = k.type.shape[2];
  const std::int64_t width = q.type.shape[3];
  for (std::int64_t i = 0; i < q.type.elements() / width; ++i) {
    const double carried = dot(row(d_output, i), row(output, i), width);
    for (std::int64_t j = i / queries * keys; j < (i / queries + 1) * keys; ++j) {
      const double logit = scale * dot(row(q, i), row(k, j), width);
      const double probability = std::exp(logit - log_sum_exp.data[static_cast<std::size_t>(i)]);
      const double d_probability = dot(row(d_output, i), row(v, j), width);
      const double d_logit = probability * (d_probability - carried) * scale;
      add_scaled(row(context.out(0), i), d_logit, row(k, j), width);
      add_scaled(row(context.out(1), j), d_logit, row(q, i), width);
      add_scaled(row(context.out(2), j), probability, row(d_output, i), width);
    }
  }
}

}  // namespace rewire::ir

// Attention and its gradient, computed directly from their equations, one query row at a time, over the keys
// that the query sees:
//   s = scale q K^T + bias, l = log sum exp s, p = exp(s - l), o = p V
//   dV += p^T do, dp = do V^T, ds = p (dp - <do, o>), dq = scale ds K, dK += scale ds^T q
#include "ir/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/checks.h"
#include "ir/ops/composite_parts.h"
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

/// The bias is as precise as the log-sum-exp.
bool is_bias_type(const TensorType& bias, const TensorType& q, const TensorType& k) {
  const auto fits = [](std::int64_t extent, std::int64_t whole) { return extent == 1 || extent == whole; };
  return bias.rank() == 4 && bias.dtype == log_sum_exp_type(q).dtype && fits(bias.shape[0], q.shape[0]) &&
         fits(bias.shape[1], q.shape[1]) && fits(bias.shape[2], q.shape[2]) && bias.shape[3] == k.shape[2];
}

void check_form(const InferContext& context, int first) {
  const TensorType& q = context.operand(0);
  const TensorType& k = context.operand(1);
  const AttentionForm form = attention_form(context.attributes, first);
  const int operands = first + (form.bias >= 0) + (form.documents >= 0);
  if (static_cast<int>(context.operands.size()) != operands)
    user_error("its attributes ask for {} operands, not {}", operands, context.operands.size());
  if (form.masked() && q.shape[2] != k.shape[2])
    user_error("causal, and documents, need as many queries as keys, not {} and {}", q.shape[2], k.shape[2]);
  if (form.window < 0 || (form.window > 0 && !form.causal))
    user_error("window must be positive, and needs causal");
  if (form.bias >= 0 && !is_bias_type(context.operand(static_cast<std::size_t>(form.bias)), q, k)) {
    user_error("the bias must be {} [batch or 1, heads or 1, queries or 1, keys]",
               dtype_name(log_sum_exp_type(q).dtype));
  }
  if (form.documents >= 0) {
    require_type(context, static_cast<std::size_t>(form.documents), "the documents",
                 {DType::i32, {q.shape[0], q.shape[2]}});
  }
}

void check_qkv(const InferContext& context, int first) {
  const TensorType& q = context.operand(0);
  const TensorType& k = context.operand(1);
  const TensorType& v = context.operand(2);
  require_float(context, 0);
  if (q.rank() != 4) user_error("q must be [batch, heads, tokens, width]");
  if (k.rank() != 4 || k.dtype != q.dtype || k.shape[0] != q.shape[0] || k.shape[3] != q.shape[3])
    user_error("k must have q's dtype, batch and width");
  if (q.shape[1] % k.shape[1] != 0) user_error("k's {} heads must divide q's {}", k.shape[1], q.shape[1]);
  if (v.rank() != 4 || v.dtype != q.dtype ||
      !std::equal(v.shape.begin(), v.shape.begin() + 3, k.shape.begin()))
    user_error("v must have k's dtype, batch, heads and tokens");
  const double scale = context.attributes.get_double("scale");
  if (!std::isfinite(scale)) user_error("scale must be finite, not {}", scale);
  check_form(context, first);
}

TensorType output_type(const InferContext& context) {
  TensorType type = context.operand(0);
  type.shape[3] = context.operand(2).shape[3];
  return type;
}

/// Returns the multiply-adds of the products over q's and over v's width, each once, over all heads. Of a
/// causal head about half of the pairs are computed.
struct Products {
  double width = 0, value_width = 0;
};
Products products(const WorkContext& context, int first) {
  const Shape& q = context.operands[0].shape;
  const AttentionForm form = attention_form(context.attributes, first);
  const auto queries = static_cast<double>(q[2]), keys = static_cast<double>(context.operands[1].shape[2]);
  double seen = queries * keys;
  if (form.causal) seen = queries * (queries + 1) / 2;
  if (const auto window = static_cast<double>(form.window); window > 0 && window < queries)
    seen -= (queries - window) * (queries - window + 1) / 2;
  const double pairs = static_cast<double>(q[0] * q[1]) * seen;
  return {pairs * static_cast<double>(q[3]), pairs * static_cast<double>(context.operands[2].shape[3])};
}

/// The logits of one query, and the row of each operand that it reads.
class QueryRow {
 public:
  QueryRow(const EvalContext& context, const AttentionForm& form)
      : context_(context),
        form_(form),
        scale_(context.op.attributes.get_double("scale")),
        q_(context.in(0).type.shape),
        k_(context.in(1).type.shape) {}

  /// Goes to row i of q, read as [batch heads queries, width].
  void move_to(std::int64_t i) {
    row_ = i;
    query_ = i % q_[2];
    head_ = i / q_[2] % q_[1];
    batch_ = i / q_[2] / q_[1];
    first_key_ = (batch_ * k_[1] + head_ / (q_[1] / k_[1])) * k_[2];
  }

  /// Returns row j of this query's keys within k and v.
  std::int64_t key_row(std::int64_t j) const { return first_key_ + j; }

  bool sees(std::int64_t j) const {
    if (!form_.sees(query_, j)) return false;
    if (form_.documents < 0) return true;
    const double* numbers = row(context_.in(static_cast<std::size_t>(form_.documents)), batch_);
    return numbers[query_] == numbers[j];
  }

  double logit(std::int64_t j) const {
    double result = scale_ * dot(row(context_.in(0), row_), row(context_.in(1), key_row(j)), q_[3]);
    if (form_.bias >= 0) {
      const Tensor& bias = context_.in(static_cast<std::size_t>(form_.bias));
      const Shape& shape = bias.type.shape;
      const std::int64_t b = shape[0] > 1 ? batch_ : 0, h = shape[1] > 1 ? head_ : 0;
      const std::int64_t i = shape[2] > 1 ? query_ : 0;
      result += row(bias, (b * shape[1] + h) * shape[2] + i)[j];
    }
    return result;
  }

 private:
  const EvalContext& context_;
  const AttentionForm& form_;
  double scale_;
  const Shape &q_, &k_;
  std::int64_t row_ = 0, query_ = 0, head_ = 0, batch_ = 0, first_key_ = 0;
};

}  // namespace

AttentionForm attention_form(const Attributes& attributes, int first) {
  AttentionForm form{attributes.get_bool("causal"), attributes.get_int("window")};
  if (attributes.get_bool("bias")) form.bias = first++;
  if (attributes.get_bool("documents")) form.documents = first;
  return form;
}

AttentionForm attention_form(const Op& op) {
  return attention_form(op.attributes, op.code == Opcode::attention_grad ? 6 : 3);
}

Value emit_attention_logits(Builder& b, const Op& op) {
  const AttentionForm form = attention_form(op);
  const Shape q = b.shape(op.operands[0]), k = b.shape(op.operands[1]);
  const Shape shape = {q[0], q[1], q[2], k[2]};
  // The queries of all heads that read one key head are the rows of one product.
  const Value queries = b.reshape(widen(b, op.operands[0]), {q[0], k[1], q[1] / k[1] * q[2], q[3]});
  Value logits = b.reshape(b.matmul(queries, widen(b, op.operands[1]), false, true), shape);
  logits = b.mul(logits, op.attributes.get_double("scale"));
  if (form.bias >= 0) logits = b.add(logits, op.operands[static_cast<std::size_t>(form.bias)]);
  Value sees;
  const auto require = [&](Value condition) {
    condition = b.broadcast(condition, shape);
    sees = sees ? b.binary(Opcode::logical_and, sees, condition) : condition;
  };
  if (form.causal) {
    const auto token = [&](std::int64_t axis) {
      Shape of(4, 1);
      of[static_cast<std::size_t>(axis)] = q[2];
      return b.emit(Opcode::iota, {}, {{"axis", axis}}, TensorType{DType::i32, of});
    };
    const auto [query, key] = std::pair{token(2), token(3)};
    require(b.compare("ge", query, key));
    if (form.window > 0)
      require(b.compare("lt", b.sub(query, key), b.constant(static_cast<double>(form.window), DType::i32)));
  }
  if (form.documents >= 0) {
    const Value numbers = op.operands[static_cast<std::size_t>(form.documents)];
    require(b.compare("eq", b.reshape(numbers, {q[0], 1, q[2], 1}), b.reshape(numbers, {q[0], 1, 1, q[2]})));
  }
  return sees ? b.select(sees, logits, b.broadcast(b.constant_like(logits, -1e30), shape)) : logits;
}

std::vector<Value> spell_out_attention(Builder& b, const Op& op) {
  const Value logits = emit_attention_logits(b, op), v = widen(b, op.operands[2]);
  const Value map = b.emit(Opcode::softmax, {logits}, {{"axis", std::int64_t{-1}}});
  const Shape shape = b.shape(map), values = b.shape(v);
  const Value grouped = b.reshape(map, {shape[0], values[1], shape[1] / values[1] * shape[2], shape[3]});
  const Value output = b.reshape(b.matmul(grouped, v), {shape[0], shape[1], shape[2], values[3]});
  const Value sums = b.unary(Opcode::log, emit_shifted_exponentials(b, logits, -1).sum);
  return {b.cast(output, b.type(op.operands[0]).dtype), b.add(sums, b.max(logits, {-1}))};
}

std::vector<TensorType> infer_attention(const InferContext& context) {
  check_qkv(context, 3);
  return {output_type(context), log_sum_exp_type(context.operand(0))};
}

void eval_attention(EvalContext& context) {
  const Tensor& v = context.in(2);
  const AttentionForm form = attention_form(context.op);
  const std::int64_t keys = v.type.shape[2];
  const std::int64_t width = v.type.shape[3];
  QueryRow query(context, form);
  std::vector<double> logits(static_cast<std::size_t>(keys));
  for (std::int64_t i = 0; i < context.out(1).type.elements(); ++i) {
    query.move_to(i);
    for (std::int64_t j = 0; j < keys; ++j)
      logits[static_cast<std::size_t>(j)] =
          query.sees(j) ? query.logit(j) : -std::numeric_limits<double>::infinity();
    const double largest = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    for (double logit : logits) total += std::exp(logit - largest);
    const double log_sum_exp = largest + std::log(total);
    for (std::int64_t j = 0; j < keys; ++j) {
      const double probability = std::exp(logits[static_cast<std::size_t>(j)] - log_sum_exp);
      add_scaled(row(context.out(0), i), probability, row(v, query.key_row(j)), width);
    }
    context.out(1).data[static_cast<std::size_t>(i)] = log_sum_exp;
  }
}

// Two products: query key^T, and the attention map times value.
Work work_attention(const WorkContext& context) {
  const auto [width, value_width] = products(context, 3);
  return {2 * (width + value_width), width + value_width};
}

// Five products: one computes the map again, two give its gradients, and two give those of query and key.
Work work_attention_grad(const WorkContext& context) {
  const auto [width, value_width] = products(context, 6);
  const double total = 3 * width + 2 * value_width;
  return {2 * total, total};
}

std::vector<TensorType> infer_attention_grad(const InferContext& context) {
  check_qkv(context, 6);
  const TensorType& q = context.operand(0);
  require_type(context, 3, "the output (operand 3)", output_type(context));
  require_type(context, 4, "the log-sum-exp (operand 4)", log_sum_exp_type(q));
  require_type(context, 5, "the output's gradient (operand 5)", output_type(context));
  return {q, context.operand(1), context.operand(2)};
}

void eval_attention_grad(EvalContext& context) {
  const Tensor& q = context.in(0);
  const Tensor& k = context.in(1);
  const Tensor& v = context.in(2);
  const Tensor& output = context.in(3);
  const Tensor& log_sum_exp = context.in(4);
  const Tensor& d_output = context.in(5);
  const AttentionForm form = attention_form(context.op);
  const double scale = context.op.attributes.get_double("scale");
  const std::int64_t width = q.type.shape[3], value_width = v.type.shape[3];
  QueryRow query(context, form);
  for (std::int64_t i = 0; i < log_sum_exp.type.elements(); ++i) {
    query.move_to(i);
    const double carried = dot(row(d_output, i), row(output, i), value_width);
    for (std::int64_t key = 0; key < k.type.shape[2]; ++key) {
      if (!query.sees(key)) continue;
      const std::int64_t j = query.key_row(key);
      const double probability = std::exp(query.logit(key) - log_sum_exp.data[static_cast<std::size_t>(i)]);
      const double d_probability = dot(row(d_output, i), row(v, j), value_width);
      const double d_logit = probability * (d_probability - carried) * scale;
      add_scaled(row(context.out(0), i), d_logit, row(k, j), width);
      add_scaled(row(context.out(1), j), d_logit, row(q, i), width);
      add_scaled(row(context.out(2), j), probability, row(d_output, i), value_width);
    }
  }
}

}  // namespace rewire::ir

// Composites: layer_norm, rms_norm, softmax, gelu, silu, relu, cross_entropy, dropout, drop_path. Attention is
// in attention.cpp, rope in rope.cpp.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/axes.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"
#include "ir/ops/stream.h"

namespace rewire::ir {
namespace {

constexpr double kGeluTanhCubic = 0.044715;

double gelu_erf(double x) {
  return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
}

double gelu_tanh(double x) {
  const double scale = std::sqrt(2.0 / std::numbers::pi);
  return 0.5 * x * (1.0 + std::tanh(scale * (x + kGeluTanhCubic * x * x * x)));
}

}  // namespace

std::vector<TensorType> infer_layer_norm(const InferContext& context) {
  const TensorType& x = context.operand(0);
  require_float(context, 0);
  if (x.rank() < 1) user_error("a scalar has no last axis to normalise");
  const TensorType vector{x.dtype, {x.shape.back()}};
  if (context.operands.size() > 1) require_type(context, 1, "the weight (operand 1)", vector);
  if (context.operands.size() > 2) require_type(context, 2, "the bias (operand 2)", vector);
  if (!(context.attributes.get_double("epsilon") >= 0)) {
    user_error("epsilon must be 0 or more, not {}", context.attributes.get_double("epsilon"));
  }
  return {x};
}

void eval_layer_norm(EvalContext& context) {
  const Tensor& x = context.in(0);
  std::vector<double>& y = context.out().data;
  const auto width = static_cast<std::size_t>(x.type.shape.back());
  const double epsilon = context.op.attributes.get_double("epsilon");
  for (std::size_t row = 0; row < y.size(); row += width) {
    double mean = 0;
    double variance = 0;
    for (std::size_t i = 0; i < width; ++i) mean += x.data[row + i] / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) {
      const double deviation = x.data[row + i] - mean;
      variance += deviation * deviation / static_cast<double>(width);
    }
    for (std::size_t i = 0; i < width; ++i) {
      y[row + i] = (x.data[row + i] - mean) / std::sqrt(variance + epsilon);
      if (context.operands.size() > 1) y[row + i] *= context.in(1).data[i];
      if (context.operands.size() > 2) y[row + i] += context.in(2).data[i];
    }
  }
}

void eval_rms_norm(EvalContext& context) {
  const Tensor& x = context.in(0);
  std::vector<double>& y = context.out().data;
  const auto width = static_cast<std::size_t>(x.type.shape.back());
  const double epsilon = context.op.attributes.get_double("epsilon");
  for (std::size_t row = 0; row < y.size(); row += width) {
    double square = 0;
    for (std::size_t i = 0; i < width; ++i)
      square += x.data[row + i] * x.data[row + i] / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) {
      y[row + i] = x.data[row + i] / std::sqrt(square + epsilon);
      if (context.operands.size() > 1) y[row + i] *= context.in(1).data[i];
    }
  }
}

std::vector<TensorType> infer_softmax(const InferContext& context) {
  require_float(context, 0);
  normal_axis(context.attributes.get_int("axis"), context.operand(0).rank());
  return {context.operand(0)};
}

void eval_softmax(EvalContext& context) {
  const Tensor& x = context.in(0);
  std::vector<double>& y = context.out().data;
  const AxisView view =
      view_around(x.type.shape, normal_axis(context.op.attributes.get_int("axis"), x.type.rank()));
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (std::int64_t inner = 0; inner < view.inner; ++inner) {
      const auto at = [&](std::int64_t k) {
        return static_cast<std::size_t>((outer * view.extent + k) * view.inner + inner);
      };
      double largest = x.data[at(0)];
      for (std::int64_t k = 1; k < view.extent; ++k) largest = std::max(largest, x.data[at(k)]);
      double total = 0;
      for (std::int64_t k = 0; k < view.extent; ++k) total += y[at(k)] = std::exp(x.data[at(k)] - largest);
      for (std::int64_t k = 0; k < view.extent; ++k) y[at(k)] /= total;
    }
  }
}

std::vector<TensorType> infer_gelu(const InferContext& context) {
  const std::string& approximate = context.attributes.get_string("approximate");
  if (approximate != "none" && approximate != "tanh") {
    user_error("approximate must be none or tanh, not '{}'", approximate);
  }
  return infer_same_float(context);
}

void eval_gelu(EvalContext& context) {
  const bool exact = context.op.attributes.get_string("approximate") == "none";
  std::transform(context.in(0).data.begin(), context.in(0).data.end(), context.out().data.begin(),
                 exact ? gelu_erf : gelu_tanh);
}

void eval_silu(EvalContext& context) {
  std::transform(context.in(0).data.begin(), context.in(0).data.end(), context.out().data.begin(),
                 [](double x) { return x / (1.0 + std::exp(-x)); });
}

void eval_relu(EvalContext& context) {
  std::transform(context.in(0).data.begin(), context.in(0).data.end(), context.out().data.begin(),
                 [](double x) { return std::isnan(x) || x > 0 ? x : 0; });
}

std::vector<TensorType> infer_cross_entropy(const InferContext& context) {
  const TensorType& logits = context.operand(0);
  const TensorType& labels = context.operand(1);
  require_float(context, 0);
  if (logits.rank() != 2) user_error("the logits (operand 0) must have rank 2, [batch, classes]");
  if ((labels.dtype != DType::i32 && labels.dtype != DType::i64) || labels.shape != Shape{logits.shape[0]}) {
    user_error("the labels (operand 1) must be i32[{0}] or i64[{0}]", logits.shape[0]);
  }
  const double smoothing = context.attributes.get_double("label_smoothing");
  if (!(smoothing >= 0 && smoothing < 1)) user_error("label_smoothing must be in [0, 1), not {}", smoothing);
  return {{logits.dtype, {logits.shape[0]}}};
}

void eval_cross_entropy(EvalContext& context) {
  const Tensor& logits = context.in(0);
  const auto classes = static_cast<std::size_t>(logits.type.shape[1]);
  const double smoothing = context.op.attributes.get_double("label_smoothing");
  for (std::size_t b = 0; b < context.out().data.size(); ++b) {
    const double* row = logits.data.data() + b * classes;
    const double largest = *std::max_element(row, row + classes);
    double total = 0;
    for (std::size_t k = 0; k < classes; ++k) total += std::exp(row[k] - largest);
    const double log_sum_exp = largest + std::log(total);
    double loss = 0;
    for (std::size_t k = 0; k < classes; ++k) {
      const double one_hot = context.in(1).data[b] == static_cast<double>(k) ? 1 : 0;
      const double target = (1 - smoothing) * one_hot + smoothing / static_cast<double>(classes);
      if (target != 0) loss += target * (log_sum_exp - row[k]);
    }
    context.out().data[b] = loss;
  }
}

std::vector<TensorType> infer_dropout(const InferContext& context) {
  require_float(context, 0);
  if (context.operand(0).rank() < 1) user_error("x (operand 0) must have rank 1 or more");
  require_type(context, 1, "the seed (operand 1)", {DType::i64, {}});
  require_type(context, 2, "the step (operand 2)", {DType::i64, {}});
  require_type(context, 3, "the training flag (operand 3)", {DType::i1, {}});
  require_stream(context);
  const double probability = context.attributes.get_double("probability");
  if (!(probability >= 0 && probability < 1))
    user_error("probability must be in [0, 1), not {}", probability);
  return {context.operand(0)};
}

void eval_dropout(EvalContext& context) {
  const Tensor& x = context.in(0);
  std::vector<double>& y = context.out().data;
  y = x.data;
  if (context.in(3).scalar() == 0) return;
  const PhiloxStream stream = eval_stream(context, 1, 2);
  const double probability = context.op.attributes.get_double("probability");
  const bool by_sample = context.op.code == Opcode::drop_path;
  const std::size_t elements_a_draw = by_sample ? y.size() / static_cast<std::size_t>(x.type.shape[0]) : 1;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const bool keep = stream.uniform(i / elements_a_draw) >= probability;
    y[i] = keep ? y[i] / (1 - probability) : 0;
  }
}

}  // namespace rewire::ir

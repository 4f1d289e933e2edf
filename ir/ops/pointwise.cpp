// Pointwise ops: shape rules and meaning.
#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"

namespace rewire::ir {
namespace {

template <class Function>
void map(EvalContext& context, Function function) {
  const std::vector<double>& x = context.in(0).data;
  std::vector<double>& y = context.out().data;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = function(x[i]);
}

template <class Function>
void map2(EvalContext& context, Function function) {
  const std::vector<double>& a = context.in(0).data;
  const std::vector<double>& b = context.in(1).data;
  std::vector<double>& y = context.out().data;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = function(a[i], b[i]);
}

void map_select(EvalContext& context) {
  const std::vector<double>& condition = context.in(0).data;
  std::vector<double>& y = context.out().data;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = context.in(condition[i] != 0 ? 1 : 2).data[i];
}

/// IEEE 754-2019 maximum and minimum: the result is NaN if either operand is NaN.
double larger(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}
double smaller(double a, double b) {
  return std::isnan(a) || a < b ? a : b;
}

void eval_compare(EvalContext& context) {
  const std::string& direction = context.op.attributes.get_string("direction");
  if (direction == "lt") return map2(context, [](double a, double b) { return a < b ? 1.0 : 0.0; });
  if (direction == "le") return map2(context, [](double a, double b) { return a <= b ? 1.0 : 0.0; });
  if (direction == "gt") return map2(context, [](double a, double b) { return a > b ? 1.0 : 0.0; });
  if (direction == "ge") return map2(context, [](double a, double b) { return a >= b ? 1.0 : 0.0; });
  if (direction == "eq") return map2(context, [](double a, double b) { return a == b ? 1.0 : 0.0; });
  if (direction == "ne") return map2(context, [](double a, double b) { return a != b ? 1.0 : 0.0; });
  internal_error("compare has direction '{}'", direction);
}

}  // namespace

std::vector<TensorType> infer_same_any(const InferContext& context) {
  require_same_types(context);
  return {context.operand(0)};
}

std::vector<TensorType> infer_same_float(const InferContext& context) {
  for (std::size_t i = 0; i < context.operands.size(); ++i) require_float(context, i);
  return infer_same_any(context);
}

std::vector<TensorType> infer_same_float_or_int(const InferContext& context) {
  for (std::size_t i = 0; i < context.operands.size(); ++i) require_number(context, i);
  return infer_same_any(context);
}

std::vector<TensorType> infer_same_bool(const InferContext& context) {
  for (std::size_t i = 0; i < context.operands.size(); ++i) {
    const DType dtype = context.operand(i).dtype;
    if (dtype != DType::i1) user_error("operand {} must be i1, not {}", i, dtype_name(dtype));
  }
  return infer_same_any(context);
}

std::vector<TensorType> infer_isfinite(const InferContext& context) {
  require_float(context, 0);
  return {{DType::i1, context.operand(0).shape}};
}

std::vector<TensorType> infer_cast(const InferContext& context) {
  if (context.requested->shape != context.operand(0).shape) {
    user_error("a cast keeps the shape; {} was requested", to_string(*context.requested));
  }
  return {*context.requested};
}

std::vector<TensorType> infer_compare(const InferContext& context) {
  const std::string& direction = context.attributes.get_string("direction");
  const std::vector<std::string> known = {"lt", "le", "gt", "ge", "eq", "ne"};
  if (std::find(known.begin(), known.end(), direction) == known.end()) {
    user_error("direction must be lt, le, gt, ge, eq or ne, not '{}'", direction);
  }
  require_same_types(context);
  return {{DType::i1, context.operand(0).shape}};
}

std::vector<TensorType> infer_select(const InferContext& context) {
  const TensorType& condition = context.operand(0);
  const TensorType& if_true = context.operand(1);
  if (condition.dtype != DType::i1) {
    user_error("the condition (operand 0) must be i1, not {}", dtype_name(condition.dtype));
  }
  if (if_true.dtype != context.operand(2).dtype) user_error("operand dtypes differ (cast one)");
  if (if_true.shape != context.operand(2).shape || if_true.shape != condition.shape) {
    user_error("operand shapes differ (broadcast one)");
  }
  return {if_true};
}

void eval_pointwise(EvalContext& context) {
  switch (context.op.code) {
    case Opcode::neg:
      return map(context, [](double x) { return -x; });
    case Opcode::abs:
      return map(context, [](double x) { return std::abs(x); });
    case Opcode::exp:
      return map(context, [](double x) { return std::exp(x); });
    case Opcode::log:
      return map(context, [](double x) { return std::log(x); });
    case Opcode::sqrt:
      return map(context, [](double x) { return std::sqrt(x); });
    case Opcode::rsqrt:
      return map(context, [](double x) { return 1.0 / std::sqrt(x); });
    case Opcode::sin:
      return map(context, [](double x) { return std::sin(x); });
    case Opcode::cos:
      return map(context, [](double x) { return std::cos(x); });
    case Opcode::tanh:
      return map(context, [](double x) { return std::tanh(x); });
    case Opcode::erf:
      return map(context, [](double x) { return std::erf(x); });
    case Opcode::sigmoid:
      return map(context, [](double x) { return 1.0 / (1.0 + std::exp(-x)); });
    case Opcode::floor:
      return map(context, [](double x) { return std::floor(x); });
    case Opcode::isfinite:
      return map(context, [](double x) { return std::isfinite(x) ? 1.0 : 0.0; });
    case Opcode::logical_not:
      return map(context, [](double x) { return x != 0 ? 0.0 : 1.0; });
    case Opcode::stop_gradient:
    case Opcode::all_reduce:
      return map(context, [](double x) { return x; });
    case Opcode::add:
      return map2(context, [](double a, double b) { return a + b; });
    case Opcode::sub:
      return map2(context, [](double a, double b) { return a - b; });
    case Opcode::mul:
      return map2(context, [](double a, double b) { return a * b; });
    case Opcode::div:
      return map2(context, [](double a, double b) { return a / b; });
    case Opcode::maximum:
      return map2(context, larger);
    case Opcode::minimum:
      return map2(context, smaller);
    case Opcode::pow:
      return map2(context, [](double a, double b) { return std::pow(a, b); });
    case Opcode::compare:
      return eval_compare(context);
    case Opcode::logical_and:
      return map2(context, [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; });
    case Opcode::logical_or:
      return map2(context, [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; });
    case Opcode::select:
      return map_select(context);
    default:
      internal_error("'{}' is not pointwise", opcode_name(context.op.code));
  }
}

void eval_cast(EvalContext& context) {
  const DType dtype = context.out().type.dtype;
  if (is_float(dtype)) return map(context, [](double x) { return x; });
  map(context, [dtype](double x) { return round_to(dtype, x); });
}

}  // namespace rewire::ir

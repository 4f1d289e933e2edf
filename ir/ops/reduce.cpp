// Reductions. sum and max keep the reduced axes with extent 1; argmax reduces one axis.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/axes.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"
#include "ir/ops/strided.h"

namespace rewire::ir {

std::vector<TensorType> infer_reduce(const InferContext& context) {
  require_number(context, 0);
  const Ints& axes = context.attributes.get_ints("axes");
  if (axes.empty()) user_error("attribute 'axes' is empty");
  TensorType type = context.operand(0);
  for (int axis : normal_axes(axes, type.rank())) type.shape[static_cast<std::size_t>(axis)] = 1;
  return {type};
}

std::vector<TensorType> infer_argmax(const InferContext& context) {
  require_number(context, 0);
  Shape shape = context.operand(0).shape;
  const int axis = normal_axis(context.attributes.get_int("axis"), context.operand(0).rank());
  shape[static_cast<std::size_t>(axis)] = 1;
  return {{DType::i32, shape}};
}

void eval_reduce(EvalContext& context) {
  const Tensor& x = context.in(0);
  Tensor& y = context.out();
  Shape strides = row_major_strides(y.type.shape);
  for (int axis : normal_axes(context.op.attributes.get_ints("axes"), x.type.rank())) {
    strides[static_cast<std::size_t>(axis)] = 0;
  }
  if (context.op.code == Opcode::sum) {
    for_each_strided(x.type.shape, strides, 0, [&](std::size_t i, std::size_t o) { y.data[o] += x.data[i]; });
    return;
  }
  std::fill(y.data.begin(), y.data.end(), -std::numeric_limits<double>::infinity());
  for_each_strided(x.type.shape, strides, 0, [&](std::size_t i, std::size_t o) {
    const double value = x.data[i];
    if (value > y.data[o] || std::isnan(value)) y.data[o] = value;  // once NaN, it stays NaN
  });
}

void eval_argmax(EvalContext& context) {
  const Tensor& x = context.in(0);
  Tensor& y = context.out();
  const int axis = normal_axis(context.op.attributes.get_int("axis"), x.type.rank());
  const AxisView view = view_around(x.type.shape, axis);
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (std::int64_t inner = 0; inner < view.inner; ++inner) {
      const auto at = [&](std::int64_t k) {
        return x.data[static_cast<std::size_t>((outer * view.extent + k) * view.inner + inner)];
      };
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < view.extent && !std::isnan(at(best)); ++k) {
        if (at(k) > at(best) || std::isnan(at(k))) best = k;
      }
      y.data[static_cast<std::size_t>(outer * view.inner + inner)] = static_cast<double>(best);
    }
  }
}

}  // namespace rewire::ir

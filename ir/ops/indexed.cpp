// Shape ops that move elements by value: gather, scatter_add, sort.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/error.h"
#include "ir/ops/axes.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"

namespace rewire::ir {
namespace {

std::int64_t clamp_index(double index, std::int64_t extent) {
  if (!(index > 0)) return 0;
  return index >= static_cast<double>(extent) ? extent - 1 : static_cast<std::int64_t>(index);
}

int axis_of(const EvalContext& context) {
  return normal_axis(context.op.attributes.get_int("axis"), context.in(0).type.rank());
}

/// `type` with the axis' extent replaced by the number of indices.
TensorType indexed_type(const InferContext& context, TensorType type) {
  const int axis = normal_axis(context.attributes.get_int("axis"), type.rank());
  type.shape[static_cast<std::size_t>(axis)] = context.operand(1).shape[0];
  return type;
}

/// A total order with NaN above all numbers, as NumPy and PyTorch sort.
bool before(double a, double b) {
  return a < b || (std::isnan(b) && !std::isnan(a));
}

}  // namespace

std::vector<TensorType> infer_gather(const InferContext& context) {
  require_indices(context, 1);
  return {indexed_type(context, context.operand(0))};
}

void eval_gather(EvalContext& context) {
  const Tensor& x = context.in(0);
  const Tensor& indices = context.in(1);
  const AxisView view = view_around(x.type.shape, axis_of(context));
  auto next = context.out().data.begin();
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (double index : indices.data) {
      const std::int64_t row = outer * view.extent + clamp_index(index, view.extent);
      next = std::copy_n(x.data.begin() + row * view.inner, view.inner, next);
    }
  }
}

std::vector<TensorType> infer_scatter_add(const InferContext& context) {
  require_number(context, 0);
  require_indices(context, 1);
  require_type(context, 2, "the updates (operand 2)", indexed_type(context, context.operand(0)));
  return {context.operand(0)};
}

void eval_scatter_add(EvalContext& context) {
  const Tensor& indices = context.in(1);
  const AxisView view = view_around(context.in(0).type.shape, axis_of(context));
  std::vector<double>& y = context.out().data;
  y = context.in(0).data;
  auto update = context.in(2).data.begin();
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (double index : indices.data) {
      const std::int64_t row = outer * view.extent + clamp_index(index, view.extent);
      for (std::int64_t i = 0; i < view.inner; ++i)
        y[static_cast<std::size_t>(row * view.inner + i)] += *update++;
    }
  }
}

std::vector<TensorType> infer_sort(const InferContext& context) {
  require_number(context, 0);
  const TensorType& type = context.operand(0);
  normal_axis(context.attributes.get_int("axis"), type.rank());
  return {type, {DType::i32, type.shape}};
}

void eval_sort(EvalContext& context) {
  const Tensor& x = context.in(0);
  const AxisView view = view_around(x.type.shape, axis_of(context));
  const bool descending = context.op.attributes.get_bool("descending");
  std::vector<std::int64_t> order(static_cast<std::size_t>(view.extent));
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (std::int64_t inner = 0; inner < view.inner; ++inner) {
      const auto at = [&](std::int64_t k) {
        return static_cast<std::size_t>((outer * view.extent + k) * view.inner + inner);
      };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return descending ? before(x.data[at(b)], x.data[at(a)]) : before(x.data[at(a)], x.data[at(b)]);
      });
      for (std::int64_t k = 0; k < view.extent; ++k) {
        const std::int64_t from = order[static_cast<std::size_t>(k)];
        context.out(0).data[at(k)] = x.data[at(from)];
        context.out(1).data[at(k)] = static_cast<double>(from);
      }
    }
  }
}

}  // namespace rewire::ir

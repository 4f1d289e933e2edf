// Shape ops that move elements by index values: gather, scatter_add, sort.
//
// x is [outer..., n, inner...], and the op's axis is n. The indices are one list [k] for all of x, or one
// list for each outer place, [outer..., k]:
//   gather        y[o, j, i] = x[o, index[o, j], i]
//   scatter_add   y[o, m, i] = base[o, m, i] + sum of updates[o, j, i] over j with index[o, j] = m, in order
// An index below 0 counts as 0, and an index of n or more as n - 1.
#include <algorithm>
#include <cmath>
#include <functional>
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

/// Returns the type of operand 0, with the axis' extent
/// replaced by the length of an index list of operand 1.
TensorType indexed_type(const InferContext& context) {
  TensorType type = context.operand(0);
  const TensorType& indices = context.operand(1);
  const int axis = normal_axis(context.attributes.get_int("axis"), type.rank());
  const auto end = type.shape.begin() + axis;
  const bool each = indices.rank() == axis + 1 && std::equal(type.shape.begin(), end, indices.shape.begin());
  if ((indices.dtype != DType::i32 && indices.dtype != DType::i64) || (indices.rank() != 1 && !each)) {
    const std::string lists =
        axis == 0 ? "" : fmt::format(", or [{},k] for each", fmt::join(type.shape.begin(), end, ","));
    user_error("indices must be i32[k] or i64[k]{}, not {}", lists, to_string(indices));
  }
  *end = indices.shape.back();
  return type;
}

/// Calls move(row of x, row of the indexed tensor) for each index of each outer place, in order.
template <class Move>
void for_each_index(const Tensor& indices, const AxisView& view, Move move) {
  const std::int64_t count = indices.type.shape.back();
  for (std::int64_t row = 0; row < view.outer * count; ++row) {
    const double index = indices.data[static_cast<std::size_t>(row % indices.type.elements())];
    move(row / count * view.extent + clamp_index(index, view.extent), row);
  }
}

/// A total order in which NaN is above all numbers, as in NumPy's and PyTorch's sort.
bool before(double a, double b) {
  return a < b || (std::isnan(b) && !std::isnan(a));
}

}  // namespace

std::vector<TensorType> infer_gather(const InferContext& context) {
  return {indexed_type(context)};
}

void eval_gather(EvalContext& context) {
  const Tensor& x = context.in(0);
  const AxisView view = view_around(x.type.shape, axis_of(context));
  for_each_index(context.in(1), view, [&](std::int64_t from, std::int64_t to) {
    std::copy_n(x.data.begin() + from * view.inner, view.inner, context.out().data.begin() + to * view.inner);
  });
}

std::vector<TensorType> infer_scatter_add(const InferContext& context) {
  require_number(context, 0);
  require_type(context, 2, "the updates (operand 2)", indexed_type(context));
  return {context.operand(0)};
}

void eval_scatter_add(EvalContext& context) {
  const AxisView view = view_around(context.in(0).type.shape, axis_of(context));
  std::vector<double>& y = context.out().data;
  y = context.in(0).data;
  for_each_index(context.in(1), view, [&](std::int64_t to, std::int64_t from) {
    const auto update = context.in(2).data.begin() + from * view.inner;
    const auto target = y.begin() + to * view.inner;
    std::transform(update, update + view.inner, target, target, std::plus<>());
  });
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

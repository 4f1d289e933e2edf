// Shape ops that move elements: reshape, transpose, broadcast, slice, pad, concat, iota, constant. The ops
// that move elements by index values (gather, scatter_add, sort) are in indexed.cpp.
#include <algorithm>

#include "ir/error.h"
#include "ir/ops/axes.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"
#include "ir/ops/strided.h"
#include "ir/tensor.h"

namespace rewire::ir {
namespace {

/// Larger paddings are refused before extents are added up.
constexpr std::int64_t kMaxPadding = std::int64_t{1} << 40;

void require_kept_dtype(const InferContext& context) {
  if (context.requested->dtype != context.operand(0).dtype) {
    user_error("the result must keep the dtype; {} was requested", to_string(*context.requested));
  }
}

void require_length(std::string_view name, std::size_t length, int rank) {
  if (length != static_cast<std::size_t>(rank)) {
    user_error("attribute '{}' has {} entries, the operand's rank is {}", name, length, rank);
  }
}

/// Returns the strides; strides=[] means 1 everywhere.
Ints slice_strides(const Attributes& attributes, std::size_t rank) {
  const Ints& strides = attributes.get_ints("strides");
  return strides.empty() ? Ints(rank, 1) : strides;
}

}  // namespace

std::vector<TensorType> infer_reshape(const InferContext& context) {
  require_kept_dtype(context);
  if (context.requested->elements() != context.operand(0).elements()) {
    user_error("{} has {} elements, the operand {}", to_string(*context.requested),
               context.requested->elements(), context.operand(0).elements());
  }
  return {*context.requested};
}

void eval_reshape(EvalContext& context) {
  context.out().data = context.in(0).data;
}

std::vector<TensorType> infer_transpose(const InferContext& context) {
  const TensorType& type = context.operand(0);
  const Ints& permutation = context.attributes.get_ints("permutation");
  require_length("permutation", permutation.size(), type.rank());
  normal_axes(permutation, type.rank());
  Shape shape;
  for (std::int64_t axis : permutation) {
    shape.push_back(type.shape[static_cast<std::size_t>(normal_axis(axis, type.rank()))]);
  }
  return {{type.dtype, shape}};
}

void eval_transpose(EvalContext& context) {
  const Tensor& x = context.in(0);
  Tensor& y = context.out();
  const Shape source_strides = row_major_strides(x.type.shape);
  Shape strides;
  for (std::int64_t axis : context.op.attributes.get_ints("permutation")) {
    strides.push_back(source_strides[static_cast<std::size_t>(normal_axis(axis, x.type.rank()))]);
  }
  for_each_strided(y.type.shape, strides, 0, [&](std::size_t i, std::size_t o) { y.data[i] = x.data[o]; });
}

std::vector<TensorType> infer_broadcast(const InferContext& context) {
  require_kept_dtype(context);
  const Shape& from = context.operand(0).shape;
  const Shape& to = context.requested->shape;
  if (from.size() != to.size()) {
    user_error("broadcast keeps the rank (reshape first); {} was requested", to_string(*context.requested));
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] != to[i] && from[i] != 1) {
      user_error("axis {} has extent {} and cannot grow to {}: only extents of 1 do", i, from[i], to[i]);
    }
  }
  return {*context.requested};
}

void eval_broadcast(EvalContext& context) {
  const Tensor& x = context.in(0);
  Tensor& y = context.out();
  Shape strides = row_major_strides(x.type.shape);
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (x.type.shape[i] == 1) strides[i] = 0;
  }
  for_each_strided(y.type.shape, strides, 0, [&](std::size_t i, std::size_t o) { y.data[i] = x.data[o]; });
}

std::vector<TensorType> infer_slice(const InferContext& context) {
  const TensorType& type = context.operand(0);
  const Ints& starts = context.attributes.get_ints("starts");
  const Ints& limits = context.attributes.get_ints("limits");
  const Ints strides = slice_strides(context.attributes, type.shape.size());
  require_length("starts", starts.size(), type.rank());
  require_length("limits", limits.size(), type.rank());
  require_length("strides", strides.size(), type.rank());
  Shape shape;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (starts[i] < 0 || starts[i] >= limits[i] || limits[i] > type.shape[i]) {
      user_error("axis {}: [{}, {}) is empty or leaves [0, {})", i, starts[i], limits[i], type.shape[i]);
    }
    if (strides[i] < 1) user_error("axis {}: stride {} is below 1", i, strides[i]);
    shape.push_back((limits[i] - starts[i] - 1) / strides[i] + 1);
  }
  return {{type.dtype, shape}};
}

void eval_slice(EvalContext& context) {
  const Tensor& x = context.in(0);
  Tensor& y = context.out();
  const Attributes& attributes = context.op.attributes;
  const Ints steps = slice_strides(attributes, x.type.shape.size());
  Shape strides = row_major_strides(x.type.shape);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    offset += attributes.get_ints("starts")[i] * strides[i];
    strides[i] = y.type.shape[i] == 1 ? 0 : strides[i] * steps[i];
  }
  for_each_strided(y.type.shape, strides, offset,
                   [&](std::size_t i, std::size_t o) { y.data[i] = x.data[o]; });
}

std::vector<TensorType> infer_pad(const InferContext& context) {
  TensorType type = context.operand(0);
  const Ints& low = context.attributes.get_ints("low");
  const Ints& high = context.attributes.get_ints("high");
  require_length("low", low.size(), type.rank());
  require_length("high", high.size(), type.rank());
  for (std::size_t i = 0; i < low.size(); ++i) {
    if (low[i] < 0 || high[i] < 0 || low[i] > kMaxPadding || high[i] > kMaxPadding) {
      user_error("axis {}: padding of {} and {} is not in [0, 2^40]", i, low[i], high[i]);
    }
    type.shape[i] += low[i] + high[i];
  }
  const double value = context.attributes.get_double("value");
  if (!holds(type.dtype, value)) user_error("{} does not hold the value {}", dtype_name(type.dtype), value);
  return {type};
}

void eval_pad(EvalContext& context) {
  const Tensor& x = context.in(0);
  Tensor& y = context.out();
  const Attributes& attributes = context.op.attributes;
  std::fill(y.data.begin(), y.data.end(), attributes.get_double("value"));
  const Shape strides = row_major_strides(y.type.shape);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) offset += attributes.get_ints("low")[i] * strides[i];
  for_each_strided(x.type.shape, strides, offset,
                   [&](std::size_t i, std::size_t o) { y.data[o] = x.data[i]; });
}

std::vector<TensorType> infer_concat(const InferContext& context) {
  TensorType type = context.operand(0);
  const auto axis = static_cast<std::size_t>(normal_axis(context.attributes.get_int("axis"), type.rank()));
  type.shape[axis] = 0;
  for (std::size_t i = 0; i < context.operands.size(); ++i) {
    TensorType part = context.operand(i);
    if (part.dtype != type.dtype) user_error("operand dtypes differ (cast one)");
    if (part.rank() != type.rank()) user_error("operand {} has another rank than operand 0", i);
    const std::int64_t extent = std::exchange(part.shape[axis], type.shape[axis]);
    if (part.shape != type.shape)
      user_error("operand {} differs from operand 0 in more than axis {}", i, axis);
    type.shape[axis] += extent;
  }
  return {type};
}

void eval_concat(EvalContext& context) {
  Tensor& y = context.out();
  const int axis = normal_axis(context.op.attributes.get_int("axis"), y.type.rank());
  const AxisView whole = view_around(y.type.shape, axis);
  std::int64_t start = 0;
  for (const Tensor* part : context.operands) {
    const std::int64_t rows = part->type.shape[static_cast<std::size_t>(axis)];
    for (std::int64_t outer = 0; outer < whole.outer; ++outer) {
      std::copy_n(part->data.begin() + outer * rows * whole.inner, rows * whole.inner,
                  y.data.begin() + (outer * whole.extent + start) * whole.inner);
    }
    start += rows;
  }
}

std::vector<TensorType> infer_iota(const InferContext& context) {
  const TensorType& type = *context.requested;
  if (type.dtype == DType::i1) user_error("iota has no i1 form; request an integer or float dtype");
  normal_axis(context.attributes.get_int("axis"), type.rank());
  return {type};
}

void eval_iota(EvalContext& context) {
  Tensor& y = context.out();
  const AxisView view =
      view_around(y.type.shape, normal_axis(context.op.attributes.get_int("axis"), y.type.rank()));
  for (std::size_t i = 0; i < y.data.size(); ++i) {
    y.data[i] = static_cast<double>(static_cast<std::int64_t>(i) / view.inner % view.extent);
  }
}

std::vector<TensorType> infer_constant(const InferContext& context) {
  const TensorType& type = *context.requested;
  const double value = context.attributes.get_double("value");
  const Doubles& values = context.attributes.get<Doubles>("values");
  if (!values.empty() && value != 0) user_error("give 'value' or 'values', not both");
  if (!values.empty() && static_cast<std::int64_t>(values.size()) != type.elements()) {
    user_error("'values' has {} entries, {} has {} elements", values.size(), to_string(type),
               type.elements());
  }
  if (!holds(type.dtype, value)) user_error("{} does not hold the value {}", dtype_name(type.dtype), value);
  for (double entry : values) {
    if (!holds(type.dtype, entry)) user_error("{} does not hold the value {}", dtype_name(type.dtype), entry);
  }
  return {type};
}

void eval_constant(EvalContext& context) {
  const Doubles& values = context.op.attributes.get<Doubles>("values");
  std::vector<double>& y = context.out().data;
  if (values.empty()) {
    std::fill(y.begin(), y.end(), context.op.attributes.get_double("value"));
  } else {
    y = values;
  }
}

}  // namespace rewire::ir

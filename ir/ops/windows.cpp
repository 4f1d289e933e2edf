// Ops over windows of maps [batch, channels, height, width], as in PyTorch: max_pool, avg_pool and unfold.
// Also resize, which is bilinear. Windows start every `strides` elements of maps that `padding` elements
// surround. The last window ends within the padded map.
#include "ir/ops/windows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/checks.h"
#include "ir/ops/composite_parts.h"
#include "ir/ops/functions.h"
#include "ir/ops/window_parts.h"

namespace rewire::ir {
namespace {

constexpr std::int64_t kLargestWindow = 256;  // per side: a decomposition has an op per row and column
constexpr std::int64_t kLargestMatrix = std::int64_t{1} << 22;

void require_window_maps(const InferContext& context) {
  require_float(context, 0);
  if (context.operand(0).rank() != 4) user_error("x (operand 0) must be [batch, channels, height, width]");
}

void require_window_ints(std::string_view name, const Ints& values, std::int64_t least) {
  if (values.size() != 2) {
    user_error("attribute '{}' has {} entries; it takes two, for rows and columns", name, values.size());
  }
  for (const std::int64_t value : values) {
    if (value < least || value > kLargestWindow)
      user_error("attribute '{}' has {}; it takes {} to {}", name, value, least, kLargestWindow);
  }
}

std::array<WindowAxis, 2> checked_axes(const InferContext& context) {
  require_window_maps(context);
  const Shape& shape = context.operand(0).shape;
  const Ints& kernel = context.attributes.get_ints("kernel");
  const Ints padding = window_padding(context.attributes);
  require_window_ints("kernel", kernel, 1);
  require_window_ints("strides", context.attributes.get_ints("strides"), 1);
  require_window_ints("padding", padding, 0);
  for (std::size_t i = 0; i < 2; ++i) {
    if (kernel[i] > shape[2 + i] + 2 * padding[i]) {
      user_error("windows of {} x {} are larger than maps of {} x {}, padded by {} and {}", kernel[0],
                 kernel[1], shape[2], shape[3], padding[0], padding[1]);
    }
  }
  return window_axes(context.attributes, shape);
}

/// Calls visit(window, offset of the map, y, x) for each output in row-major order. (y, x) is the window's
/// first row and column within the map; both may be negative.
template <class Visit>
void for_each_window(const Shape& shape, const std::array<WindowAxis, 2>& axes, Visit visit) {
  std::size_t window = 0;
  for (std::int64_t map = 0; map < shape[0] * shape[1]; ++map) {
    for (std::int64_t i = 0; i < axes[0].count; ++i) {
      for (std::int64_t j = 0; j < axes[1].count; ++j) {
        visit(window++, map * shape[2] * shape[3], i * axes[0].stride - axes[0].padding,
              j * axes[1].stride - axes[1].padding);
      }
    }
  }
}

/// Calls visit(element of x) for each element of the window that lies within the map.
template <class Visit>
void for_each_element(const Shape& shape, const std::array<WindowAxis, 2>& axes, std::int64_t map,
                      std::int64_t top, std::int64_t left, Visit visit) {
  for (std::int64_t y = std::max<std::int64_t>(top, 0); y < std::min(top + axes[0].kernel, shape[2]); ++y) {
    for (std::int64_t x = std::max<std::int64_t>(left, 0); x < std::min(left + axes[1].kernel, shape[3]); ++x)
      visit(static_cast<std::size_t>(map + y * shape[3] + x));
  }
}

}  // namespace

Ints window_padding(const Attributes& attributes) {
  const Ints& padding = attributes.get_ints("padding");
  return padding.empty() ? Ints{0, 0} : padding;
}

BilinearSource bilinear_source(std::int64_t o, std::int64_t in, std::int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double at =
      std::clamp((static_cast<double>(o) + 0.5) * scale - 0.5, 0.0, static_cast<double>(in - 1));
  const auto first = static_cast<std::int64_t>(at);
  return {first, std::min(first + 1, in - 1), at - static_cast<double>(first)};
}

std::vector<TensorType> infer_pool(const InferContext& context) {
  const auto [rows, columns] = checked_axes(context);
  if (2 * rows.padding > rows.kernel || 2 * columns.padding > columns.kernel) {
    user_error("padding of {} and {} is more than half of a window of {} x {}", rows.padding, columns.padding,
               rows.kernel, columns.kernel);
  }
  const TensorType& x = context.operand(0);
  return {{x.dtype, {x.shape[0], x.shape[1], rows.count, columns.count}}};
}

void eval_max_pool(EvalContext& context) {
  const Tensor& x = context.in(0);
  std::vector<double>& y = context.out().data;
  const auto axes = window_axes(context.op.attributes, x.type.shape);
  std::fill(y.begin(), y.end(), -std::numeric_limits<double>::infinity());
  for_each_window(x.type.shape, axes,
                  [&](std::size_t window, std::int64_t map, std::int64_t top, std::int64_t left) {
                    for_each_element(x.type.shape, axes, map, top, left, [&](std::size_t at) {
                      if (x.data[at] > y[window] || std::isnan(x.data[at])) y[window] = x.data[at];
                    });
                  });
}

void eval_avg_pool(EvalContext& context) {
  const Tensor& x = context.in(0);
  std::vector<double>& y = context.out().data;
  const auto axes = window_axes(context.op.attributes, x.type.shape);
  const auto elements = static_cast<double>(axes[0].kernel * axes[1].kernel);
  for_each_window(x.type.shape, axes,
                  [&](std::size_t window, std::int64_t map, std::int64_t top, std::int64_t left) {
                    for_each_element(x.type.shape, axes, map, top, left,
                                     [&](std::size_t at) { y[window] += x.data[at] / elements; });
                  });
}

std::vector<TensorType> infer_unfold(const InferContext& context) {
  const auto [rows, columns] = checked_axes(context);
  const TensorType& x = context.operand(0);
  return {{x.dtype, {x.shape[0], x.shape[1] * rows.kernel * columns.kernel, rows.count * columns.count}}};
}

// y[b, (c kh + i) kw + j, p] = x[b, c, top of p + i, left of p + j], or 0 outside the map.
void eval_unfold(EvalContext& context) {
  const Tensor& x = context.in(0);
  std::vector<double>& y = context.out().data;
  const Shape& shape = x.type.shape;
  const auto axes = window_axes(context.op.attributes, shape);
  const std::int64_t positions = axes[0].count * axes[1].count, kernel = axes[0].kernel * axes[1].kernel;
  for_each_window(shape, axes,
                  [&](std::size_t window, std::int64_t map, std::int64_t top, std::int64_t left) {
                    const auto number = static_cast<std::int64_t>(window);
                    const std::int64_t first = number / positions * kernel * positions + number % positions;
                    for_each_element(shape, axes, map, top, left, [&](std::size_t at) {
                      const std::int64_t within = static_cast<std::int64_t>(at) - map;
                      const std::int64_t i = within / shape[3] - top, j = within % shape[3] - left;
                      y[static_cast<std::size_t>(first + (i * axes[1].kernel + j) * positions)] = x.data[at];
                    });
                  });
}

std::vector<TensorType> infer_resize(const InferContext& context) {
  require_window_maps(context);
  const TensorType& x = context.operand(0);
  const Ints& size = context.attributes.get_ints("size");
  if (size.size() != 2)
    user_error("attribute 'size' has {} entries; it takes two, height and width", size.size());
  for (std::size_t i = 0; i < 2; ++i) {
    if (size[i] < 1 || size[i] > kLargestMatrix / x.shape[2 + i]) {
      user_error("attribute 'size' has {}; of {} elements it takes 1 to {}", size[i], x.shape[2 + i],
                 kLargestMatrix / x.shape[2 + i]);
    }
  }
  return {{x.dtype, {x.shape[0], x.shape[1], size[0], size[1]}}};
}

void eval_resize(EvalContext& context) {
  const Tensor& x = context.in(0);
  Tensor& y = context.out();
  const std::int64_t height = x.type.shape[2], width = x.type.shape[3];
  const std::int64_t rows = y.type.shape[2], columns = y.type.shape[3];
  for (std::int64_t map = 0; map < x.type.shape[0] * x.type.shape[1]; ++map) {
    const double* from = x.data.data() + map * height * width;
    for (std::int64_t i = 0; i < rows; ++i) {
      const BilinearSource row = bilinear_source(i, height, rows);
      for (std::int64_t j = 0; j < columns; ++j) {
        const BilinearSource column = bilinear_source(j, width, columns);
        const auto along = [&](std::int64_t line) {
          return (1 - column.share) * from[line * width + column.first] +
                 column.share * from[line * width + column.second];
        };
        y.data[static_cast<std::size_t>((map * rows + i) * columns + j)] =
            (1 - row.share) * along(row.first) + row.share * along(row.second);
      }
    }
  }
}

// The maximum over columns, then over rows, of maps that are padded with -inf.
std::vector<Value> decompose_max_pool(Builder& b, const Op& op) {
  const auto axes = window_axes(op.attributes, b.shape(op.operands[0]));
  Value y = pad_maps(b, op.operands[0], axes, -std::numeric_limits<double>::infinity());
  for (const WindowAxis& windows : {axes[1], axes[0]}) {
    const std::vector<Value> slices = window_slices(b, y, windows);
    y = slices[0];
    for (std::size_t j = 1; j < slices.size(); ++j) y = b.binary(Opcode::maximum, y, slices[j]);
  }
  return {y};
}

// The mean over a window's elements: sums over columns, then over rows, of maps that are padded with 0.
std::vector<Value> decompose_avg_pool(Builder& b, const Op& op) {
  const DType dtype = b.type(op.operands[0]).dtype;
  const auto axes = window_axes(op.attributes, b.shape(op.operands[0]));
  Value y = pad_maps(b, widen(b, op.operands[0]), axes, 0);
  for (const WindowAxis& windows : {axes[1], axes[0]}) {
    const std::vector<Value> slices = window_slices(b, y, windows);
    y = slices[0];
    for (std::size_t j = 1; j < slices.size(); ++j) y = b.add(y, slices[j]);
  }
  return {b.cast(b.mul(y, 1.0 / static_cast<double>(axes[0].kernel * axes[1].kernel)), dtype)};
}

// [B, C, H, W] -> [B, C, kh, Ho, W] -> [B, C, kh, kw, Ho, Wo]: each step stacks the slices of one axis.
std::vector<Value> decompose_unfold(Builder& b, const Op& op) {
  auto [rows, columns] = window_axes(op.attributes, b.shape(op.operands[0]));
  Value y = pad_maps(b, op.operands[0], {rows, columns}, 0);
  const auto stack = [&](const WindowAxis& windows, std::size_t at) {
    std::vector<Value> slices = window_slices(b, y, windows);
    for (Value& slice : slices) {
      Shape shape = b.shape(slice);
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), 1);
      slice = b.reshape(slice, shape);
    }
    return b.concat(slices, static_cast<int>(at));
  };
  y = stack(rows, 2);
  columns.axis = 4;  // after kh
  y = stack(columns, 3);
  return {b.reshape(y, b.shape(op.results[0]))};
}

// Y = M_h X M_w^T for each map.
std::vector<Value> decompose_resize(Builder& b, const Op& op) {
  const TensorType type = b.type(op.operands[0]);
  const Ints size = op.attributes.get_ints("size");
  Value y = widen(b, op.operands[0]);
  const DType dtype = b.type(y).dtype;
  y = b.matmul(y, bilinear_matrix(b, dtype, type.shape[3], size[1]), false, true);
  y = b.transpose(y, {0, 1, 3, 2});
  y = b.matmul(y, bilinear_matrix(b, dtype, type.shape[2], size[0]), false, true);
  return {b.cast(b.transpose(y, {0, 1, 3, 2}), type.dtype)};
}

}  // namespace rewire::ir

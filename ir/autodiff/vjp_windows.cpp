// VJPs of the ops over windows. Like the decompositions, they handle one axis after the other: forward takes
// columns, then rows, and backward takes rows, then columns. unfold does it the other way round. g is dL/dy.
// Sums are in f32 at least.
#include <limits>

#include "ir/opcodes.h"
#include "ir/ops/composite_parts.h"
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"
#include "ir/ops/window_parts.h"

namespace rewire::ir {
namespace {

/// Returns each slice's share of `gradient`: all of it where
/// it is the first slice that equals `largest`, else 0.
std::vector<Value> to_first_largest(Builder& b, const std::vector<Value>& slices, Value largest,
                                    Value gradient) {
  const TensorType type = b.type(gradient);
  const Value zero = b.constant(0.0, type.dtype, type.shape);
  std::vector<Value> shares;
  Value open;  // where no slice so far equals `largest`
  for (std::size_t j = 0; j < slices.size(); ++j) {
    const Value is_largest = b.compare("eq", slices[j], largest);
    const Value takes = open ? b.binary(Opcode::logical_and, is_largest, open) : is_largest;
    shares.push_back(b.select(takes, gradient, zero));
    if (j + 1 == slices.size()) break;
    const Value other = b.unary(Opcode::logical_not, is_largest);
    open = open ? b.binary(Opcode::logical_and, open, other) : other;
  }
  return shares;
}

void accumulate_maps(VjpContext& c, Value padded, const std::array<WindowAxis, 2>& axes) {
  c.accumulate(0, c.builder.cast(crop_maps(c.builder, padded, axes), c.builder.type(c.operand(0)).dtype));
}

}  // namespace

// The gradient goes to the first of the largest elements in row-major order: to the first row whose maximum
// is the window's, and there to the first column. A window whose maximum is NaN passes no gradient.
void vjp_max_pool(VjpContext& c) {
  Builder& b = c.builder;
  const auto axes = window_axes(c.op.attributes, b.shape(c.operand(0)));
  const auto& [rows, columns] = axes;
  const Value x = pad_maps(b, c.operand(0), axes, -std::numeric_limits<double>::infinity());
  const std::vector<Value> by_column = window_slices(b, x, columns);
  Value row_maxima = by_column[0];
  for (std::size_t j = 1; j < by_column.size(); ++j)
    row_maxima = b.binary(Opcode::maximum, row_maxima, by_column[j]);

  const Value g = widen(b, c.cotangent());
  const std::vector<Value> by_row = window_slices(b, row_maxima, rows);
  const Value of_rows = add_windows(b, to_first_largest(b, by_row, c.result(), g), rows);
  const Value of_elements = add_windows(b, to_first_largest(b, by_column, row_maxima, of_rows), columns);
  accumulate_maps(c, of_elements, axes);
}

// Each element of a window gets g divided by the number of the window's elements.
void vjp_avg_pool(VjpContext& c) {
  Builder& b = c.builder;
  const auto axes = window_axes(c.op.attributes, b.shape(c.operand(0)));
  Value g = b.mul(widen(b, c.cotangent()), 1.0 / static_cast<double>(axes[0].kernel * axes[1].kernel));
  for (const WindowAxis& windows : axes) {
    const std::vector<Value> pieces(static_cast<std::size_t>(windows.kernel), g);
    g = add_windows(b, pieces, windows);
  }
  accumulate_maps(c, g, axes);
}

// The cotangent is [B, C, kh, kw, Ho, Wo]. The slices of
// the columns are added up first, then those of the rows.
void vjp_unfold(VjpContext& c) {
  Builder& b = c.builder;
  const Shape shape = b.shape(c.operand(0));
  const auto axes = window_axes(c.op.attributes, shape);
  auto [rows, columns] = axes;
  Value g = b.reshape(widen(b, c.cotangent()),
                      {shape[0], shape[1], rows.kernel, columns.kernel, rows.count, columns.count});
  const auto add_slices = [&](const WindowAxis& windows, std::size_t at) {
    std::vector<Value> pieces;
    Shape piece = b.shape(g);
    piece.erase(piece.begin() + static_cast<std::ptrdiff_t>(at));
    for (std::int64_t j = 0; j < windows.kernel; ++j)
      pieces.push_back(b.reshape(b.slice(g, static_cast<int>(at), j, j + 1), piece));
    g = add_windows(b, pieces, windows);
  };
  columns.axis = 4;  // after kh
  add_slices(columns, 3);
  add_slices(rows, 2);
  accumulate_maps(c, g, axes);
}

// dX = M_h^T dY M_w for each map.
void vjp_resize(VjpContext& c) {
  Builder& b = c.builder;
  const TensorType type = b.type(c.operand(0));
  const Ints size = c.op.attributes.get_ints("size");
  Value g = widen(b, c.cotangent());
  const DType dtype = b.type(g).dtype;
  g = b.matmul(b.transpose(g, {0, 1, 3, 2}), bilinear_matrix(b, dtype, type.shape[2], size[0]));
  g = b.matmul(b.transpose(g, {0, 1, 3, 2}), bilinear_matrix(b, dtype, type.shape[3], size[1]));
  c.accumulate(0, b.cast(g, type.dtype));
}

}  // namespace rewire::ir

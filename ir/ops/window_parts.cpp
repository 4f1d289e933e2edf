// Implements ir/ops/window_parts.h.
#include "ir/ops/window_parts.h"

#include <algorithm>
#include <cmath>

#include "ir/opcodes.h"
#include "ir/ops/windows.h"

namespace rewire::ir {

std::array<WindowAxis, 2> window_axes(const Attributes& attributes, const Shape& maps) {
  const Ints& kernel = attributes.get_ints("kernel");
  const Ints& strides = attributes.get_ints("strides");
  const Ints padding = window_padding(attributes);
  std::array<WindowAxis, 2> axes;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t extent = maps[2 + i] + 2 * padding[i];
    axes[i] = {.axis = 2 + i,
               .kernel = kernel[i],
               .stride = strides[i],
               .padding = padding[i],
               .extent = extent,
               .count = (extent - kernel[i]) / strides[i] + 1};
  }
  return axes;
}

Value pad_maps(Builder& b, Value x, const std::array<WindowAxis, 2>& axes, double value) {
  const auto& [rows, columns] = axes;
  if (rows.padding == 0 && columns.padding == 0) return x;
  const Ints around = {0, 0, rows.padding, columns.padding};
  return b.emit(Opcode::pad, {x}, {{"low", around}, {"high", around}, {"value", value}});
}

Value crop_maps(Builder& b, Value padded, const std::array<WindowAxis, 2>& axes) {
  for (const WindowAxis& windows : axes) {
    if (windows.padding == 0) continue;
    padded =
        b.slice(padded, static_cast<int>(windows.axis), windows.padding, windows.extent - windows.padding);
  }
  return padded;
}

std::vector<Value> window_slices(Builder& b, Value padded, const WindowAxis& windows) {
  std::vector<Value> slices;
  for (std::int64_t j = 0; j < windows.kernel; ++j) {
    Ints starts(b.shape(padded).size(), 0), limits = b.shape(padded), strides(starts.size(), 1);
    starts[windows.axis] = j;
    limits[windows.axis] = j + (windows.count - 1) * windows.stride + 1;
    strides[windows.axis] = windows.stride;
    slices.push_back(
        b.emit(Opcode::slice, {padded}, {{"starts", starts}, {"limits", limits}, {"strides", strides}}));
  }
  return slices;
}

// Element q stride + r of the result, 0 <= r < stride, is the sum over t of
// element q - t of piece r + t stride. So each phase r is a sum of padded
// pieces, and the phases are interleaved. No piece is spread out with zeros.
Value add_windows(Builder& b, std::span<const Value> pieces, const WindowAxis& windows) {
  const std::int64_t stride = windows.stride, length = (windows.extent - 1) / stride + 1;
  TensorType type = b.type(pieces.front());
  type.shape[windows.axis] = length;
  Shape column = type.shape, whole = type.shape;
  column.insert(column.begin() + static_cast<std::ptrdiff_t>(windows.axis) + 1, 1);
  whole[windows.axis] = length * stride;

  std::vector<Value> phases;
  for (std::int64_t r = 0; r < stride; ++r) {
    Value phase;
    for (std::int64_t j = r, t = 0; j < windows.kernel; j += stride, ++t) {
      Ints low(type.shape.size(), 0), high(type.shape.size(), 0);
      low[windows.axis] = t;
      high[windows.axis] = length - windows.count - t;
      Value piece = pieces[static_cast<std::size_t>(j)];
      if (length != windows.count) piece = b.emit(Opcode::pad, {piece}, {{"low", low}, {"high", high}});
      phase = phase ? b.add(phase, piece) : piece;
    }
    if (!phase) phase = b.constant(0.0, type.dtype, type.shape);
    phases.push_back(stride == 1 ? phase : b.reshape(phase, column));
  }
  if (stride == 1) return phases.front();
  const Value spread = b.reshape(b.concat(phases, static_cast<int>(windows.axis) + 1), whole);
  return length * stride == windows.extent
             ? spread
             : b.slice(spread, static_cast<int>(windows.axis), 0, windows.extent);
}

Value bilinear_matrix(Builder& b, DType dtype, std::int64_t in, std::int64_t out) {
  Doubles weights(static_cast<std::size_t>(in * out));
  for (std::int64_t o = 0; o < out; ++o) {
    const BilinearSource source = bilinear_source(o, in, out);
    double* row = weights.data() + o * in;
    row[source.first] += 1 - source.share;
    row[source.second] += source.share;
  }
  return b.emit(Opcode::constant, {}, {{"values", std::move(weights)}}, TensorType{dtype, {out, in}});
}

}  // namespace rewire::ir

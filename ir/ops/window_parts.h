// Parts of the ops over windows of maps [batch, channels, height, width], for their decompositions and VJPs.
// Rows and columns are taken one after the other: kh + kw slices a map instead of kh kw.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/attribute.h"
#include "ir/builder.h"

namespace rewire::ir {

/// The windows along one axis of padded maps. Window i has the elements i stride + j, 0 <= j < kernel.
struct WindowAxis {
  std::size_t axis = 0;
  std::int64_t kernel = 1, stride = 1;
  std::int64_t padding = 0;  // elements before and after the axis
  std::int64_t extent = 0;   // extent of the padded axis
  std::int64_t count = 0;    // number of windows
};

/// Returns rows (axis 2), then columns (axis 3), by the checked attributes kernel, strides and padding.
std::array<WindowAxis, 2> window_axes(const Attributes& attributes, const Shape& maps);

/// Returns x with `value` around each map; x itself without padding.
Value pad_maps(Builder& builder, Value x, const std::array<WindowAxis, 2>& axes, double value);
/// Returns the maps without their padding: the adjoint of pad_maps.
Value crop_maps(Builder& builder, Value padded, const std::array<WindowAxis, 2>& axes);

/// Returns `kernel` slices of padded maps, of extent `count` along the axis. Slice j has element j of each
/// window.
std::vector<Value> window_slices(Builder& builder, Value padded, const WindowAxis& windows);
/// The adjoint of window_slices: adds element i of piece j at i stride + j, of extent `extent` along the
/// axis.
Value add_windows(Builder& builder, std::span<const Value> pieces, const WindowAxis& windows);

/// Returns bilinear interpolation along one axis as a constant matrix [out, in] of this dtype. Output o
/// reads the input at s = (o + 1/2) in / out - 1/2, clamped to [0, in - 1], with weights 1 - |s - i| of the
/// two nearest inputs i.
Value bilinear_matrix(Builder& builder, DType dtype, std::int64_t in, std::int64_t out);

}  // namespace rewire::ir

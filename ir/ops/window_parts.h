// What the ops over windows of maps [batch, channels, height, width] are made of, for their decompositions and
// their VJPs. Rows and columns are taken one after the other: kh + kw slices a map instead of kh kw.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/attribute.h"
#include "ir/builder.h"

namespace rewire::ir {

/// The windows along one axis of padded maps: window i has the elements i stride + j, for j from 0 up to kernel.
struct WindowAxis {
  std::size_t axis = 0;
  std::int64_t kernel = 1, stride = 1;
  std::int64_t padding = 0;  // elements before and behind the axis
  std::int64_t extent = 0;   // of the axis, padded
  std::int64_t count = 0;    // of windows
};

/// Rows (axis 2), then columns (axis 3), by the attributes kernel, strides and padding, which are checked.
std::array<WindowAxis, 2> window_axes(const Attributes& attributes, const Shape& maps);

/// x with `value` around each map; x itself where there is no padding.
Value pad_maps(Builder& builder, Value x, const std::array<WindowAxis, 2>& axes, double value);
/// The maps without their padding: the adjoint of pad_maps.
Value crop_maps(Builder& builder, Value padded, const std::array<WindowAxis, 2>& axes);

/// `kernel` slices of padded maps, of extent `count` along the axis: slice j has element j of each window.
std::vector<Value> window_slices(Builder& builder, Value padded, const WindowAxis& windows);
/// The adjoint: adds element i of piece j at i stride + j, of extent `extent` along the axis.
Value add_windows(Builder& builder, std::span<const Value> pieces, const WindowAxis& windows);

/// Bilinear interpolation along one axis as a constant matrix [out, in] of this dtype: output o reads the input at
/// s = (o + 1/2) in / out - 1/2, kept within [0, in - 1], by weights 1 - |s - i| of the two inputs i beside it.
Value bilinear_matrix(Builder& builder, DType dtype, std::int64_t in, std::int64_t out);

}  // namespace rewire::ir

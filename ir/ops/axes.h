// Axes of ops and builders; a negative axis counts from the end.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/attribute.h"
#include "ir/types.h"

namespace rewire::ir {

/// Returns the axis in [0, rank). Throws UserError if it is outside [-rank, rank).
int normal_axis(std::int64_t axis, int rank);

/// Returns the axes in [0, rank), ascending. Throws UserError if one is out of range or named twice.
std::vector<int> normal_axes(const Ints& axes, int rank);

/// A shape seen as [outer, extent, inner] around one axis in [0, rank).
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
};
AxisView view_around(const Shape& shape, int axis);

}  // namespace rewire::ir

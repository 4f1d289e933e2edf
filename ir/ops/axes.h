// Axes as ops and builders write them: a negative one counts from the end.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/attribute.h"
#include "ir/types.h"

namespace rewire::ir {

/// The axis in [0, rank). UserError if it is outside [-rank, rank).
int normal_axis(std::int64_t axis, int rank);

/// The axes in [0, rank), ascending. UserError if one is out of range or named twice.
std::vector<int> normal_axes(const Ints& axes, int rank);

/// Any shape seen as [outer, extent, inner] around one axis in [0, rank).
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
};
AxisView view_around(const Shape& shape, int axis);

}  // namespace rewire::ir

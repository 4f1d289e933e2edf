// Helpers for axes: negative axes, lists of axes, and the view of a shape around one axis.
#include "ir/ops/axes.h"

#include <algorithm>

#include "ir/error.h"

namespace rewire::ir {

int normal_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    if (rank == 0) user_error("axis {} is out of range: a scalar has no axes", axis);
    user_error("axis {} is out of range: rank {} has axes {} to {}", axis, rank, -rank, rank - 1);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> normal_axes(const Ints& axes, int rank) {
  std::vector<int> normal;
  normal.reserve(axes.size());
  for (std::int64_t axis : axes) normal.push_back(normal_axis(axis, rank));
  std::sort(normal.begin(), normal.end());
  const auto twice = std::adjacent_find(normal.begin(), normal.end());
  if (twice != normal.end()) user_error("axis {} is named twice", *twice);
  return normal;
}

AxisView view_around(const Shape& shape, int axis) {
  AxisView view;
  for (int i = 0; i < static_cast<int>(shape.size()); ++i) {
    const std::int64_t extent = shape[static_cast<std::size_t>(i)];
    if (i < axis) {
      view.outer *= extent;
    } else if (i == axis) {
      view.extent = extent;
    } else {
      view.inner *= extent;
    }
  }
  return view;
}

}  // namespace rewire::ir

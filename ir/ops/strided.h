// Walks a row-major index space together with a linear offset of its own strides. It is the one loop of
// broadcast, transpose, slice, pad and the reductions.
#pragma once

#include <cstdint>

#include "ir/types.h"

namespace rewire::ir {

/// Calls visit(i, offset + sum of index[a] * strides[a]) for i = 0, 1, … over `shape` in row-major order.
template <class Visit>
void for_each_strided(const Shape& shape, const Shape& strides, std::int64_t offset, Visit visit) {
  const std::int64_t count = element_count(shape);
  Shape index(shape.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    visit(static_cast<std::size_t>(i), static_cast<std::size_t>(offset));
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace rewire::ir

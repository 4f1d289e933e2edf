// Affine index expressions: the place of a tensor's element as a function of the axes of a fused group.
// Shape ops are followed from a consumer back to a producer. This turns each dimension's index into offset +
// sum of coefficient x axis, so reshape, transpose, slice and broadcast cost nothing inside a kernel.
#pragma once

#include <boost/container/flat_map.hpp>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/module.h"

namespace rewire::codegen {

struct Affine {
  /// Terms by axis. They are few, and copied with every group that is tried, so they are stored in place.
  using Terms = boost::container::small_flat_map<int, std::int64_t, 2>;

  std::int64_t offset = 0;
  Terms terms;  // axis -> coefficient, never 0

  void add(const Affine& other, std::int64_t scale = 1);
  bool operator==(const Affine&) const = default;
};

/// One expression per dimension of a tensor.
using IndexMap = std::vector<Affine>;

/// A request to split an axis into (high, low) with this extent of low: the axis crosses a dimension
/// boundary of a reshape.
struct AxisSplit {
  int axis = 0;
  std::int64_t low_extent = 1;
};

/// The extents of a group's axes, by axis number.
using Extents = std::vector<std::int64_t>;

/// Returns the index maps of `operand 0` of a shape op (reshape, transpose, broadcast, slice, or any op that
/// keep indices), given the result's. For a reshape that cuts through an axis it returns nullopt: with
/// `split` set if splitting the axis makes it work, unset if nothing does.
std::optional<IndexMap> operand_map(const ir::Op& op, const ir::Shape& operand_shape,
                                    const ir::Shape& result_shape, const IndexMap& result_map,
                                    const Extents& extents, std::optional<AxisSplit>& split);

/// Returns the row-major linear index of a map into a tensor of this shape.
Affine linear_index(const IndexMap& map, const ir::Shape& shape);
/// Returns offset + sum of stride x index over the dimensions.
Affine strided_index(const IndexMap& map, std::int64_t offset, const ir::Shape& strides);

/// Replaces axis by high x low_extent + low in an expression.
void apply_split(Affine& affine, int axis, std::int64_t low_extent, int low_axis);

}  // namespace rewire::codegen

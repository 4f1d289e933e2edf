// A fused group while it grows: ops that will become one tile kernel, over common axes. For every value that
// it computes or reads, a group knows the place of its elements as a function of the axes. It also knows
// which axes its reductions and exports force to be held on chip.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/fuse/affine.h"
#include "ir/module.h"

namespace rewire::codegen {

/// Returns whether an op that fuses is a reduction.
bool is_reduction(const ir::Op& op);

/// The source of an operand: a value computed by an op, a parameter, an argument or a constant, seen through
/// shape ops.
struct Source {
  ir::Value root;
  bool linear = false;   // `map` has one entry: the row-major linear index into a dense root
  bool indexed = false;  // read at a computed index (gather, pad): the root must be in memory
  IndexMap map;
};

/// The most elements that lanes may cross in any order: they stay in a cache.
inline constexpr std::int64_t kInCache = 65536;

/// The uses of a finished group's axes; see codegen/tile/tile.h.
struct AxisPlan {
  std::vector<int> outer, rows, lanes;  // ascending
};

struct Group {
  std::vector<int> ops;                           // body indices, ascending
  Extents extents;                                // by axis
  std::map<std::int32_t, IndexMap> maps;          // results of `ops`, by Value::id
  std::map<int, IndexMap> reduce_maps;            // operand maps of the reductions, by body index
  std::map<std::pair<int, int>, Source> sources;  // by (body index, operand index)
  std::set<std::int32_t> exported;                // results read outside
  std::set<int> row_reductions;                   // reductions that the group itself uses: over lanes
  std::set<std::string> updates;                  // state written here

  int add_axis(std::int64_t extent);
  /// Splits an axis in two, in all maps.
  void split_axis(const AxisSplit& split);
  /// Returns the axes of an index map.
  static std::set<int> axes_of(const IndexMap& map);
  /// Returns the axes that a reduction sums over.
  std::set<int> reduced_axes(int op, const ir::Op& reduction) const;
  /// Returns the product of the extents of some axes.
  std::int64_t size_of(const std::set<int>& axes) const;
  std::set<int> all_axes() const;  // the axes with extent > 1
};

/// Returns whether a group's whole space is a small matrix (16 x 16), which one thread can hold: its
/// reductions may run over any axes.
bool is_small(const Group& group);

/// Returns whether a reduction sums along rows. One that keeps the innermost dimension sums columns: it ends
/// its group, and its result is complete only after all rows.
bool reduces_last(const ir::Shape& operand, const ir::Shape& result);

/// Returns whether a reduction sums along rows and leaves several sums: it reduces only innermost
/// dimensions.
bool reduces_last_alone(const ir::Shape& operand, const ir::Shape& result);

/// Returns whether every reduction that the group itself uses runs along rows. A reduction over other axes
/// ends its group, unless the group is small.
bool sums_along_rows(const Group& group, const ir::Function& function);

/// Returns axes for a reduced dimension of this extent: a run of neighbouring axes that `taken` does not
/// hold.
std::vector<int> matching_axes(const Group& group, std::int64_t extent, const std::set<int>& taken);

/// Returns whether a map covers every element of a tensor of this shape exactly once: each axis occurs once,
/// in one dimension, row-major, from 0.
bool covers(const IndexMap& map, const ir::Shape& shape, const Extents& extents);

/// Returns uses of the axes that satisfy every rule of the tile IR, or nullopt.
///  - Lanes: the axes that the group's own reductions reduce, and those that an exported value lacks; or all
///    axes, if such a reduction sums columns (of a small matrix).
///  - Rows: the other axes that reductions at the group's end reduce. Such a reduction keeps no row axis.
/// Lanes have no more than `lane_elements` elements together. If nothing forces them and sums keep too many
/// columns, the innermost axis is the lanes; several ops in a space beyond kInCache may have no other axis
/// there. `rows_first`: if nothing else decides, a sum along rows takes the axes that it sums as lanes, and
/// may share a group with sums over rows.
std::optional<AxisPlan> plan_axes(const Group& group, const ir::Function& function,
                                  std::int64_t lane_elements, bool rows_first);

}  // namespace rewire::codegen

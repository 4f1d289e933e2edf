// A fused group while it grows: ops that will become one tile kernel, over common axes. A group knows, for
// every value it computes or reads, where its elements stand as a function of the axes, and which axes its
// reductions and exports force to be held on chip.
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

/// Of the ops that fuse, those that reduce.
bool is_reduction(const ir::Op& op);

/// Where an operand comes from: a value that is computed by an op, a parameter, an argument or a constant,
/// seen through shape ops.
struct Source {
  ir::Value root;
  bool linear = false;   // `map` has one entry: the row-major linear index into a dense root
  bool indexed = false;  // read at a computed index (gather, pad): the root must be in memory
  IndexMap map;
};

/// Elements that lanes may walk across in any order: they stay in a cache.
inline constexpr std::int64_t kInCache = 65536;

/// How the axes of a finished group are used; see codegen/tile/tile.h.
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
  std::set<int> row_reductions;                   // reductions whose result the group itself uses: over lanes
  std::set<std::string> updates;                  // state written here

  int add_axis(std::int64_t extent);
  /// Splits an axis in two, everywhere.
  void split_axis(const AxisSplit& split);
  /// The axes of an index map.
  static std::set<int> axes_of(const IndexMap& map);
  /// The axes a reduction sums over.
  std::set<int> reduced_axes(int op, const ir::Op& reduction) const;
  /// Product of the extents of some axes.
  std::int64_t size_of(const std::set<int>& axes) const;
  std::set<int> all_axes() const;  // those with extent > 1
};

/// Whether a group's whole space is a small matrix (16 x 16), which one thread can hold: its reductions may
/// run over any axes.
bool is_small(const Group& group);

/// Whether a reduction sums along rows. One that keeps the innermost dimension sums columns: it ends its
/// group, and its result is complete only after all rows.
bool reduces_last(const ir::Shape& operand, const ir::Shape& result);

/// Whether a reduction sums along rows and leaves more than one: all dimensions it reduces are innermost.
bool reduces_last_alone(const ir::Shape& operand, const ir::Shape& result);

/// Whether every reduction that the group itself uses runs along rows. Over other axes it ends its group,
/// unless that is small.
bool sums_along_rows(const Group& group, const ir::Function& function);

/// Axes that can stand for a reduced dimension of this extent: a run of neighbours that `taken` does not
/// hold.
std::vector<int> matching_axes(const Group& group, std::int64_t extent, const std::set<int>& taken);

/// Every element of a tensor of this shape exactly once: each axis stands once, in one dimension, row-major,
/// from 0.
bool covers(const IndexMap& map, const ir::Shape& shape, const Extents& extents);

/// How the axes can be used so that every rule of the tile IR holds, or nullopt:
///  - what the group's own reductions reduce, and what an exported value lacks, are lanes; all axes are,
///  where
///    such a reduction sums columns (of a small matrix);
///  - what a reduction at the group's end reduces besides are rows, and where it does, it keeps no row axis.
/// No more than `lane_elements` are lanes together. Where nothing forces them, and the columns that sums keep are
/// too many, the innermost axis is the lanes; of several ops in a space beyond kInCache no other axis may be.
/// `rows_first`: where nothing else decides, a sum along rows has its rows as lanes, and may stand beside sums
/// over rows.
std::optional<AxisPlan> plan_axes(const Group& group, const ir::Function& function,
                                  std::int64_t lane_elements, bool rows_first);

}  // namespace rewire::codegen

// Builds a fused group's tile kernel: axes, arguments, and values that know whether they change from row to
// row. Accesses and indices are given over the group's axes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/fuse/group.h"
#include "codegen/program.h"

namespace rewire::codegen {

/// Returns the type that a storage type is computed in.
ir::DType compute_type(ir::DType dtype);
/// Returns "blocks_3_norm1" for "blocks.3.norm1".
std::string kernel_identifier(const std::string& location);

class KernelBuilder {
 public:
  /// The place where a value is computed: before the rows, or in each of them.
  enum class Level : std::uint8_t { prologue, body };
  struct Emitted {
    tile::TileValue value;
    Level level = Level::prologue;
  };

  /// `program` names the buffers. `sums_lanes`: a reduction runs along lanes, so they stay together.
  KernelBuilder(const Program& program, AxisPlan plan, const Extents& extents, bool sums_lanes,
                const WorkGrain& grain);

  tile::Kernel kernel;
  std::vector<std::int32_t> buffers;  // by argument of the kernel

  std::vector<tile::Node>& nodes(Level level) { return level == Level::body ? kernel.body : kernel.prologue; }
  const std::vector<std::int32_t>& lanes(tile::TileValue value) const {
    return kernel.values[static_cast<std::size_t>(value.id)].lanes;
  }
  /// Returns the kernel's axis for one of the group's; -1 if it has none.
  std::int32_t axis(int group_axis) const;
  /// Returns the kernel's axes for those of the group's that are lanes.
  std::vector<std::int32_t> lanes_of(const std::set<int>& axes) const;
  bool has_row(const std::set<int>& axes) const;

  tile::TileValue new_value(ir::DType dtype, std::vector<std::int32_t> lanes);
  std::int32_t argument(std::int32_t buffer, tile::ArgumentUse use);
  tile::Access access(std::int32_t argument, const Affine& index) const;

  Emitted constant(double value, ir::DType dtype);
  Emitted pointwise(ir::Opcode code, ir::DType dtype, const std::vector<Emitted>& operands,
                    const std::string& direction = {});
  /// Returns offset + sum of coefficient x index, as a value.
  Emitted index_value(const Affine& affine, ir::DType dtype);
  Emitted load(std::int32_t buffer, ir::DType dtype, const Affine& index);
  void store(const Emitted& value, const View& view, const IndexMap& map, tile::TileValue predicate);

 private:
  const Program& program_;
  const AxisPlan plan_;
  std::map<int, std::int32_t> axis_;  // by the group's axis
};

}  // namespace rewire::codegen

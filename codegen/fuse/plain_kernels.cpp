// Copies and finishing sums as tile kernels; see plain_kernels.h.
#include "codegen/fuse/plain_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "codegen/fuse/kernel_builder.h"
#include "codegen/tile/simplify.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen {

KernelLaunch emit_copy(const Program& program, const View& from, const View& to, const std::string& location,
                       const WorkGrain& grain) {
  tile::Kernel k;
  k.name = kernel_identifier(location) + "_copy";
  k.origin = {"copy at " + location};
  std::vector<std::int64_t> read, written;
  for (std::size_t d = 0; d < to.shape.size(); ++d) {
    if (to.shape[d] == 1) continue;
    const bool last = std::all_of(to.shape.begin() + static_cast<std::ptrdiff_t>(d) + 1, to.shape.end(),
                                  [](std::int64_t e) { return e == 1; });
    k.axes.push_back({fmt::format("{}{}", last ? 'c' : 'r', d), to.shape[d],
                      last ? tile::AxisUse::lane : tile::AxisUse::row});
    read.push_back(from.strides[d]);
    written.push_back(to.strides[d]);
  }
  const auto& source = program.buffers[static_cast<std::size_t>(from.buffer)];
  const auto& target = program.buffers[static_cast<std::size_t>(to.buffer)];
  k.arguments = {{source.name, source.type.dtype, tile::ArgumentUse::read},
                 {target.name, target.type.dtype, tile::ArgumentUse::write}};
  std::vector<std::int32_t> lanes;
  if (!k.axes.empty()) lanes.push_back(static_cast<std::int32_t>(k.axes.size()) - 1);
  k.values.push_back({compute_type(source.type.dtype), lanes});
  auto& nodes = k.row_count() > 1 || k.axes.size() > 1 ? k.body : k.prologue;
  nodes.push_back(tile::Load{{0}, {0, from.offset, read, 0}, {}, 0, 0});
  nodes.push_back(tile::Store{{0}, {1, to.offset, written, 0}, {}});
  k.partitions = std::clamp<std::int64_t>(ir::element_count(to.shape) / grain.elements_per_instance, 1,
                                          std::min(grain.max_instances, k.row_count()));
  const std::int64_t per_part = (k.row_count() + k.partitions - 1) / k.partitions;
  k.partitions = (k.row_count() + per_part - 1) / per_part;
  tile::merge_axes(k);
  tile::verify(k);
  return {std::move(k), {from.buffer, to.buffer}};
}

KernelLaunch emit_finish(const Program& program, const ir::Op& reduction, std::int32_t partials,
                         std::int64_t partitions, const View& home) {
  const bool is_sum = reduction.code == ir::Opcode::sum;
  const ir::DType dtype = compute_type(program.buffers[static_cast<std::size_t>(partials)].type.dtype);
  tile::Kernel k;
  k.name = kernel_identifier(reduction.location) + "_finish";
  k.origin = {ir::describe(reduction) + ": adds the partial sums"};
  const ir::Shape& shape = home.shape;
  std::vector<std::int64_t> home_strides, partial_strides;
  std::int64_t size = 1;
  for (std::int64_t extent : shape) size *= extent;
  const ir::Shape dense = ir::row_major_strides(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool last = std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1, shape.end(),
                                  [](std::int64_t e) { return e == 1; });
    k.axes.push_back({fmt::format("{}{}", last ? 'c' : 'o', d), shape[d],
                      last ? tile::AxisUse::lane : tile::AxisUse::outer});
    home_strides.push_back(home.strides[d]);
    partial_strides.push_back(dense[d]);
  }
  const auto rows = std::find_if(k.axes.begin(), k.axes.end(),
                                 [](const auto& axis) { return axis.use == tile::AxisUse::lane; });
  const auto at = rows - k.axes.begin();
  k.axes.insert(rows, {"p", partitions, tile::AxisUse::row});
  home_strides.insert(home_strides.begin() + at, 0);
  partial_strides.insert(partial_strides.begin() + at, size);
  k.arguments = {
      {reduction.location + ".partials", dtype, tile::ArgumentUse::read},
      {program.buffers[static_cast<std::size_t>(home.buffer)].name,
       program.buffers[static_cast<std::size_t>(home.buffer)].type.dtype, tile::ArgumentUse::write}};
  std::vector<std::int32_t> lanes;
  if (k.axes.back().use == tile::AxisUse::lane) lanes.push_back(static_cast<std::int32_t>(k.axes.size()) - 1);
  for (int i = 0; i < 5; ++i) k.values.push_back({dtype, lanes});
  k.prologue.push_back(tile::Constant{{0}, is_sum ? 0.0 : -std::numeric_limits<double>::infinity()});
  k.body.push_back(tile::Load{{1}, {0, 0, partial_strides, 0}, {}, 0, 0});
  k.body.push_back(tile::Pointwise{{3}, is_sum ? ir::Opcode::add : ir::Opcode::maximum, {{2}, {1}}, {}});
  k.carried.push_back({{0}, {2}, {3}, {4}});
  k.epilogue.push_back(tile::Store{{4}, {1, home.offset, home_strides, 0}, {}});
  tile::verify(k);
  return {std::move(k), {partials, home.buffer}};
}

}  // namespace rewire::codegen

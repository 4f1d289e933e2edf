// Axes, arguments and values of a group's kernel; see kernel_builder.h.
#include "codegen/fuse/kernel_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "ir/opcodes.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen {

using ir::DType;
using ir::Opcode;
using tile::TileValue;

DType compute_type(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype;
}

std::string kernel_identifier(const std::string& location) {
  std::string name;
  for (char c : location) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name.empty() ? "kernel" : name;
}

KernelBuilder::KernelBuilder(const Program& program, AxisPlan plan, const Extents& extents, bool sums_lanes,
                             const WorkGrain& grain)
    : program_(program), plan_(std::move(plan)) {
  const auto add = [&](const std::vector<int>& axes, tile::AxisUse use, char letter) {
    int number = 0;
    for (int axis : axes) {
      axis_[axis] = static_cast<std::int32_t>(kernel.axes.size());
      kernel.axes.push_back(
          {fmt::format("{}{}", letter, number++), extents[static_cast<std::size_t>(axis)], use});
    }
  };
  add(plan_.outer, tile::AxisUse::outer, 'o');
  add(plan_.rows, tile::AxisUse::row, 'r');
  add(plan_.lanes, tile::AxisUse::lane, 'c');
  std::int64_t outer = 1, rows = 1, lanes = 1;
  for (int axis : plan_.outer) outer *= extents[static_cast<std::size_t>(axis)];
  for (int axis : plan_.rows) rows *= extents[static_cast<std::size_t>(axis)];
  for (int axis : plan_.lanes) lanes *= extents[static_cast<std::size_t>(axis)];
  const auto parts_of = [](std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; };
  const std::int64_t side_by_side =
      sums_lanes || grain.lanes_side_by_side == 0 ? 1 : parts_of(lanes, grain.lanes_side_by_side);
  const std::int64_t wanted =
      std::min(grain.max_instances / std::min(outer * side_by_side, grain.max_instances),
               rows * lanes / grain.elements_per_instance);
  kernel.partitions = std::clamp<std::int64_t>(wanted, 1, rows);
  // The last partition may be short but never empty.
  std::int64_t per_part = parts_of(rows, kernel.partitions);
  if (per_part > grain.rows_at_once) per_part = parts_of(per_part, grain.rows_at_once) * grain.rows_at_once;
  kernel.partitions = parts_of(rows, per_part);
}

std::int32_t KernelBuilder::axis(int group_axis) const {
  const auto it = axis_.find(group_axis);
  return it == axis_.end() ? -1 : it->second;
}

std::vector<std::int32_t> KernelBuilder::lanes_of(const std::set<int>& axes) const {
  std::vector<std::int32_t> lanes;
  for (int axis : plan_.lanes) {
    if (axes.contains(axis)) lanes.push_back(axis_.at(axis));
  }
  return lanes;
}

bool KernelBuilder::has_row(const std::set<int>& axes) const {
  return std::any_of(plan_.rows.begin(), plan_.rows.end(), [&](int axis) { return axes.contains(axis); });
}

TileValue KernelBuilder::new_value(DType dtype, std::vector<std::int32_t> lanes) {
  kernel.values.push_back({compute_type(dtype), std::move(lanes)});
  return {static_cast<std::int32_t>(kernel.values.size()) - 1};
}

std::int32_t KernelBuilder::argument(std::int32_t buffer, tile::ArgumentUse use) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i] != buffer) continue;
    if (kernel.arguments[i].use != use) kernel.arguments[i].use = tile::ArgumentUse::read_write;
    return static_cast<std::int32_t>(i);
  }
  const Buffer& b = program_.buffers[static_cast<std::size_t>(buffer)];
  buffers.push_back(buffer);
  kernel.arguments.push_back({b.name, b.type.dtype, use});
  return static_cast<std::int32_t>(buffers.size()) - 1;
}

tile::Access KernelBuilder::access(std::int32_t argument, const Affine& index) const {
  tile::Access at{argument, index.offset, std::vector<std::int64_t>(kernel.axes.size(), 0), 0};
  for (const auto& [axis, coefficient] : index.terms) {
    if (const auto it = axis_.find(axis); it != axis_.end())
      at.strides[static_cast<std::size_t>(it->second)] = coefficient;
  }
  return at;
}

KernelBuilder::Emitted KernelBuilder::constant(double value, DType dtype) {
  const TileValue result = new_value(dtype, {});
  kernel.prologue.push_back(tile::Constant{result, value});
  return {result, Level::prologue};
}

KernelBuilder::Emitted KernelBuilder::pointwise(Opcode code, DType dtype,
                                                const std::vector<Emitted>& operands,
                                                const std::string& direction) {
  std::set<std::int32_t> lanes;
  Level level = Level::prologue;
  std::vector<TileValue> values;
  for (const Emitted& operand : operands) {
    const auto& of = this->lanes(operand.value);
    lanes.insert(of.begin(), of.end());
    level = std::max(level, operand.level);
    values.push_back(operand.value);
  }
  const TileValue result = new_value(dtype, {lanes.begin(), lanes.end()});
  nodes(level).push_back(tile::Pointwise{result, code, std::move(values), direction});
  return {result, level};
}

KernelBuilder::Emitted KernelBuilder::index_value(const Affine& affine, DType dtype) {
  std::optional<Emitted> sum;
  for (const auto& [axis, coefficient] : affine.terms) {
    const Level level = has_row({axis}) ? Level::body : Level::prologue;
    const TileValue result = new_value(dtype, lanes_of({axis}));
    nodes(level).push_back(tile::Index{result, axis_.at(axis)});
    Emitted term{result, level};
    if (coefficient != 1)
      term = pointwise(Opcode::mul, dtype, {term, constant(static_cast<double>(coefficient), dtype)});
    sum = sum ? pointwise(Opcode::add, dtype, {*sum, term}) : term;
  }
  const Emitted offset = constant(static_cast<double>(affine.offset), dtype);
  if (!sum) return offset;
  return affine.offset == 0 ? *sum : pointwise(Opcode::add, dtype, {*sum, offset});
}

KernelBuilder::Emitted KernelBuilder::load(std::int32_t buffer, DType dtype, const Affine& index) {
  const std::set<int> axes = Group::axes_of({index});
  const Level level = has_row(axes) ? Level::body : Level::prologue;
  const TileValue result = new_value(dtype, lanes_of(axes));
  nodes(level).push_back(
      tile::Load{result, access(argument(buffer, tile::ArgumentUse::read), index), {}, 0, 0});
  return {result, level};
}

void KernelBuilder::store(const Emitted& value, const View& view, const IndexMap& map, TileValue predicate) {
  const Affine index = strided_index(map, view.offset, view.strides);
  const Level level = has_row(Group::axes_of({index})) ? Level::body : value.level;
  nodes(level).push_back(
      tile::Store{value.value, access(argument(view.buffer, tile::ArgumentUse::write), index), predicate});
}

}  // namespace rewire::codegen

// Infers lanes and dtypes, as a fuser would.
#include "tests/support/tile_builder.h"

#include <algorithm>

#include "codegen/tile/walk.h"
#include "ir/opcodes.h"

namespace rewire::test {

using namespace codegen::tile;  // NOLINT: the subject of this file
using ir::DType;
using ir::Opcode;

TileBuilder::Axis TileBuilder::axis(std::string name, std::int64_t extent, AxisUse use) {
  kernel_.axes.push_back({std::move(name), extent, use});
  return static_cast<Axis>(kernel_.axes.size()) - 1;
}

std::int32_t TileBuilder::argument(std::string name, ArgumentUse use, DType dtype) {
  kernel_.arguments.push_back({std::move(name), dtype, use});
  return static_cast<std::int32_t>(kernel_.arguments.size()) - 1;
}

TileBuilder::Value TileBuilder::new_value(DType dtype, std::vector<Axis> lanes) {
  std::sort(lanes.begin(), lanes.end());
  lanes.erase(std::unique(lanes.begin(), lanes.end()), lanes.end());
  kernel_.values.push_back({dtype, std::move(lanes)});
  return {static_cast<std::int32_t>(kernel_.values.size()) - 1};
}

Access TileBuilder::access(std::int32_t argument, const Strides& strides, std::int64_t offset,
                           std::int64_t part_stride) const {
  Access result{argument, offset, std::vector<std::int64_t>(kernel_.axes.size()), part_stride};
  for (const auto& [axis, stride] : strides) result.strides[static_cast<std::size_t>(axis)] = stride;
  return result;
}

std::vector<TileBuilder::Axis> TileBuilder::lanes_of(const Strides& strides) const {
  std::vector<Axis> lanes;
  for (const auto& [axis, stride] : strides) {
    if (kernel_.axes[static_cast<std::size_t>(axis)].use == AxisUse::lane && stride != 0)
      lanes.push_back(axis);
  }
  return lanes;
}

TileBuilder::Value TileBuilder::load(std::int32_t argument, const Strides& strides, std::int64_t offset,
                                     DType dtype, const std::vector<Axis>& more) {
  std::vector<Axis> lanes = lanes_of(strides);
  lanes.insert(lanes.end(), more.begin(), more.end());
  const Value result = new_value(dtype, lanes);
  section_->push_back(Load{result, access(argument, strides, offset, 0), {}, 0, 0});
  return result;
}

TileBuilder::Value TileBuilder::gather(std::int32_t argument, const Strides& strides, Value index,
                                       std::int64_t index_stride, std::int64_t limit, DType dtype) {
  const Value result = new_value(dtype, lane_union(lanes_of(strides), info(index).lanes));
  section_->push_back(Load{result, access(argument, strides, 0, 0), index, index_stride, limit});
  return result;
}

void TileBuilder::store(std::int32_t argument, Value value, const Strides& strides, std::int64_t offset,
                        std::int64_t part_stride, Value predicate) {
  section_->push_back(Store{value, access(argument, strides, offset, part_stride), predicate});
}

TileBuilder::Value TileBuilder::op(Opcode code, std::vector<Value> operands, std::string direction) {
  std::vector<Axis> lanes;
  for (Value operand : operands) lanes = lane_union(lanes, info(operand).lanes);
  const bool truth = code == Opcode::compare || code == Opcode::isfinite;
  const Value result = new_value(truth ? DType::i1 : info(operands.back()).dtype, lanes);
  section_->push_back(Pointwise{result, code, std::move(operands), std::move(direction)});
  return result;
}

TileBuilder::Value TileBuilder::cast(Value operand, DType dtype) {
  const Value result = new_value(dtype, info(operand).lanes);
  section_->push_back(Pointwise{result, Opcode::cast, {operand}, ""});
  return result;
}

TileBuilder::Value TileBuilder::constant(double value, std::vector<Axis> lanes, DType dtype) {
  const Value result = new_value(dtype, std::move(lanes));
  section_->push_back(Constant{result, value});
  return result;
}

TileBuilder::Value TileBuilder::index(Axis axis, DType dtype) {
  const bool lane = kernel_.axes[static_cast<std::size_t>(axis)].use == AxisUse::lane;
  const Value result = new_value(dtype, lane ? std::vector<Axis>{axis} : std::vector<Axis>{});
  section_->push_back(Index{result, axis});
  return result;
}

TileBuilder::Value TileBuilder::reduce(ReduceKind kind, Value operand, std::vector<Axis> axes) {
  std::vector<Axis> lanes = info(operand).lanes;
  std::erase_if(lanes, [&](Axis lane) { return contains_lane(axes, lane); });
  const Value result = new_value(info(operand).dtype, lanes);
  section_->push_back(Reduce{result, kind, operand, std::move(axes)});
  return result;
}

TileBuilder::Value TileBuilder::dot(Value a, Value b, Axis contract) {
  std::vector<Axis> lanes = lane_union(info(a).lanes, info(b).lanes);
  std::erase(lanes, contract);
  const Value result = new_value(DType::f32, lanes);
  section_->push_back(Dot{result, a, b, contract});
  return result;
}

TileBuilder::Value TileBuilder::random(bool normal, Value seed, Value step, std::uint64_t stream,
                                       const Strides& element, std::int64_t offset, DType dtype) {
  const Value result = new_value(dtype, lanes_of(element));
  section_->push_back(Random{result, normal, seed, step, stream, access(0, element, offset, 0)});
  return result;
}

TileBuilder::Value TileBuilder::carry(Value initial) {
  const Value entry = new_value(info(initial).dtype, info(initial).lanes);
  kernel_.carried.push_back({initial, entry, {}, {}});
  return entry;
}

TileBuilder::Value TileBuilder::carry_next(Value entry, Value next) {
  const Value last = new_value(info(entry).dtype, info(entry).lanes);
  for (Carried& carried : kernel_.carried) {
    if (carried.entry == entry) {
      carried.next = next;
      carried.last = last;
    }
  }
  return last;
}

Kernel TileBuilder::finish() const {
  verify(kernel_);
  return kernel_;
}

}  // namespace rewire::test

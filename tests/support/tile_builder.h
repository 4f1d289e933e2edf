// Writes tile kernels for tests in a few words. Nodes go to the section that was chosen last.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::test {

class TileBuilder {
 public:
  using Axis = std::int32_t;
  using Value = codegen::tile::TileValue;
  using Strides = std::map<Axis, std::int64_t>;

  explicit TileBuilder(std::string name) { kernel_.name = std::move(name); }

  Axis outer(std::string name, std::int64_t extent) {
    return axis(std::move(name), extent, codegen::tile::AxisUse::outer);
  }
  Axis row(std::string name, std::int64_t extent) {
    return axis(std::move(name), extent, codegen::tile::AxisUse::row);
  }
  Axis lane(std::string name, std::int64_t extent) {
    return axis(std::move(name), extent, codegen::tile::AxisUse::lane);
  }
  void partitions(std::int64_t count) { kernel_.partitions = count; }

  std::int32_t argument(std::string name, codegen::tile::ArgumentUse use, ir::DType dtype = ir::DType::f32);
  std::int32_t input(std::string name, ir::DType dtype = ir::DType::f32) {
    return argument(std::move(name), codegen::tile::ArgumentUse::read, dtype);
  }
  std::int32_t output(std::string name, ir::DType dtype = ir::DType::f32) {
    return argument(std::move(name), codegen::tile::ArgumentUse::write, dtype);
  }

  void prologue() { section_ = &kernel_.prologue; }
  void body() { section_ = &kernel_.body; }
  void epilogue() { section_ = &kernel_.epilogue; }

  /// A load's lanes are the axes with a stride, and `more`.
  Value load(std::int32_t argument, const Strides& strides, std::int64_t offset = 0,
             ir::DType dtype = ir::DType::f32, const std::vector<Axis>& more = {});
  Value gather(std::int32_t argument, const Strides& strides, Value index, std::int64_t index_stride,
               std::int64_t limit, ir::DType dtype = ir::DType::f32);
  void store(std::int32_t argument, Value value, const Strides& strides, std::int64_t offset = 0,
             std::int64_t part_stride = 0, Value predicate = {});
  /// Lanes and dtype follow from the operands (i1 for truth values).
  Value op(ir::Opcode code, std::vector<Value> operands, std::string direction = "");
  Value cast(Value operand, ir::DType dtype);
  Value constant(double value, std::vector<Axis> lanes = {}, ir::DType dtype = ir::DType::f32);
  Value index(Axis axis, ir::DType dtype = ir::DType::f32);
  Value reduce(codegen::tile::ReduceKind kind, Value operand, std::vector<Axis> axes);
  Value sum(Value operand, std::vector<Axis> axes) {
    return reduce(codegen::tile::ReduceKind::sum, operand, std::move(axes));
  }
  Value max(Value operand, std::vector<Axis> axes) {
    return reduce(codegen::tile::ReduceKind::max, operand, std::move(axes));
  }
  Value dot(Value a, Value b, Axis contract);
  Value random(bool normal, Value seed, Value step, std::uint64_t stream, const Strides& element,
               std::int64_t offset = 0, ir::DType dtype = ir::DType::f32);
  /// Carries `initial` over the rows and returns its value inside the body. Close with carry_next.
  Value carry(Value initial);
  /// Yields `next` for a carried entry and returns its value in the epilogue.
  Value carry_next(Value entry, Value next);

  /// Returns the verified kernel.
  codegen::tile::Kernel finish() const;
  codegen::tile::Kernel& kernel() { return kernel_; }

 private:
  Axis axis(std::string name, std::int64_t extent, codegen::tile::AxisUse use);
  Value new_value(ir::DType dtype, std::vector<Axis> lanes);
  codegen::tile::Access access(std::int32_t argument, const Strides& strides, std::int64_t offset,
                               std::int64_t part_stride) const;
  std::vector<Axis> lanes_of(const Strides& strides) const;
  const codegen::tile::ValueInfo& info(Value value) const {
    return kernel_.values[static_cast<std::size_t>(value.id)];
  }

  codegen::tile::Kernel kernel_;
  std::vector<codegen::tile::Node>* section_ = &kernel_.prologue;
};

}  // namespace rewire::test

// Index expressions through shape ops: checked by evaluating them at every point against the op's meaning.
#include "codegen/fuse/affine.h"

#include "ir/opcodes.h"
#include "tests/support/catch.h"

using namespace rewire;
using codegen::Affine;
using codegen::AxisSplit;
using codegen::Extents;
using codegen::IndexMap;

namespace {

IndexMap identity(const ir::Shape& shape) {
  IndexMap map(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) map[d].terms[static_cast<int>(d)] = 1;
  return map;
}

std::int64_t value(const Affine& affine, const ir::Shape& point) {
  std::int64_t sum = affine.offset;
  for (const auto& [axis, coefficient] : affine.terms)
    sum += coefficient * point[static_cast<std::size_t>(axis)];
  return sum;
}

ir::Op shape_op(ir::Opcode code, ir::Attributes attributes = {}) {
  ir::Op op;
  op.code = code;
  op.attributes = std::move(attributes);
  return op;
}

}  // namespace

TEST_CASE("a transpose permutes indices and a slice shifts them") {
  std::optional<AxisSplit> split;
  const auto transposed =
      codegen::operand_map(shape_op(ir::Opcode::transpose, {{"permutation", ir::Ints{2, 0, 1}}}), {3, 5, 2},
                           {2, 3, 5}, identity({2, 3, 5}), {2, 3, 5}, split);
  REQUIRE(transposed);
  // result[i, j, k] = operand[j, k, i]
  CHECK((*transposed)[0].terms == Affine::Terms{{1, 1}});
  CHECK((*transposed)[1].terms == Affine::Terms{{2, 1}});
  CHECK((*transposed)[2].terms == Affine::Terms{{0, 1}});
  const auto sliced = codegen::operand_map(
      shape_op(ir::Opcode::slice,
               {{"starts", ir::Ints{1, 4}}, {"limits", ir::Ints{3, 9}}, {"strides", ir::Ints{1, 2}}}),
      {4, 9}, {2, 3}, identity({2, 3}), {2, 3}, split);
  REQUIRE(sliced);
  CHECK(value((*sliced)[0], {1, 2}) == 2);
  CHECK(value((*sliced)[1], {1, 2}) == 8);
}

TEST_CASE("a reshape that merges dimensions needs no split, one that cuts an axis asks for it") {
  std::optional<AxisSplit> split;
  const auto merged = codegen::operand_map(shape_op(ir::Opcode::reshape), {15, 2}, {3, 5, 2},
                                           identity({3, 5, 2}), {3, 5, 2}, split);
  REQUIRE(merged);
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) CHECK(value((*merged)[0], {i, j, 1}) == 5 * i + j);
  }
  CHECK_FALSE(codegen::operand_map(shape_op(ir::Opcode::reshape), {3, 5, 2}, {15, 2}, identity({15, 2}),
                                   {15, 2}, split));
  REQUIRE(split);
  CHECK(split->axis == 0);
  CHECK(split->low_extent == 5);
}

TEST_CASE("a reshape no split can follow is refused without one") {
  std::optional<AxisSplit> split;
  // [6, 4] -> [8, 3]: the boundary of 4 falls inside a row of 3.
  CHECK_FALSE(
      codegen::operand_map(shape_op(ir::Opcode::reshape), {6, 4}, {8, 3}, identity({8, 3}), {8, 3}, split));
  CHECK_FALSE(split);
}

TEST_CASE("a broadcast drops the axes its operand lacks") {
  std::optional<AxisSplit> split;
  const auto map =
      codegen::operand_map(shape_op(ir::Opcode::broadcast), {1, 7}, {4, 7}, identity({4, 7}), {4, 7}, split);
  REQUIRE(map);
  CHECK((*map)[0].terms.empty());
  CHECK(value((*map)[1], {3, 6}) == 6);
}

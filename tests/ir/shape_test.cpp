// How shape ops move elements, by index formulas.
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/opcodes.h"
#include "tests/ir/run_op.h"
#include "tests/support/catch.h"

using namespace rewire::ir;
using namespace rewire::testing;

namespace {

using Values = std::vector<double>;

/// 0, 1, 2, … in the shape.
Tensor counting(Shape shape) {
  Tensor tensor({DType::f32, std::move(shape)});
  std::iota(tensor.data.begin(), tensor.data.end(), 0);
  return tensor;
}

}  // namespace

TEST_CASE("reshape keeps row-major order") {
  const Tensor y = run_op(Opcode::reshape, {counting({2, 6})}, {}, TensorType{DType::f32, {3, 1, 4}})[0];
  CHECK(y.type == TensorType{DType::f32, {3, 1, 4}});
  CHECK(y.data == counting({12}).data);
  CHECK(values_of(Opcode::reshape, {f32({1, 1}, {5})}, {}, TensorType{DType::f32, {}}) == Values{5});
}

TEST_CASE("transpose: result axis i is operand axis permutation[i]") {
  const Tensor y = run_op(Opcode::transpose, {counting({2, 3, 4})}, {{"permutation", Ints{2, 0, -2}}})[0];
  REQUIRE(y.type == TensorType{DType::f32, {4, 2, 3}});
  for (std::int64_t k = 0; k < 4; ++k) {
    for (std::int64_t i = 0; i < 2; ++i) {
      for (std::int64_t j = 0; j < 3; ++j) {
        CHECK(y.data[static_cast<std::size_t>((k * 2 + i) * 3 + j)] ==
              static_cast<double>((i * 3 + j) * 4 + k));
      }
    }
  }
}

TEST_CASE("broadcast repeats extents of 1") {
  CHECK(values_of(Opcode::broadcast, {f32({2, 1}, {1, 2})}, {}, TensorType{DType::f32, {2, 3}}) ==
        Values{1, 1, 1, 2, 2, 2});
  CHECK(values_of(Opcode::broadcast, {f32({1, 2}, {1, 2})}, {}, TensorType{DType::f32, {3, 2}}) ==
        Values{1, 2, 1, 2, 1, 2});
  CHECK(values_of(Opcode::broadcast, {i1({1, 1, 1}, {1})}, {}, TensorType{DType::i1, {1, 2, 2}}) ==
        Values{1, 1, 1, 1});
}

TEST_CASE("slice takes every stride-th element of [start, limit)") {
  const Tensor x = counting({3, 8});
  const Tensor y = run_op(Opcode::slice, {x},
                          {{"starts", Ints{1, 2}}, {"limits", Ints{3, 8}}, {"strides", Ints{1, 3}}})[0];
  CHECK(y.type == TensorType{DType::f32, {2, 2}});
  CHECK(y.data == Values{10, 13, 18, 21});
  CHECK(values_of(Opcode::slice, {x}, {{"starts", Ints{2, 7}}, {"limits", Ints{3, 8}}}) == Values{23});
  // A stride beyond the end leaves the first element.
  CHECK(values_of(Opcode::slice, {counting({5})},
                  {{"starts", Ints{1}}, {"limits", Ints{5}}, {"strides", Ints{9}}}) == Values{1});
}

TEST_CASE("pad puts its value before and after") {
  const Tensor y = run_op(Opcode::pad, {f32({2, 2}, {1, 2, 3, 4})},
                          {{"low", Ints{1, 0}}, {"high", Ints{0, 2}}, {"value", -1.0}})[0];
  CHECK(y.type == TensorType{DType::f32, {3, 4}});
  CHECK(y.data == Values{-1, -1, -1, -1, 1, 2, -1, -1, 3, 4, -1, -1});
}

TEST_CASE("concat joins along any axis") {
  const Tensor a = f32({2, 1}, {1, 2});
  const Tensor b = f32({2, 2}, {3, 4, 5, 6});
  CHECK(values_of(Opcode::concat, {a, b}, {{"axis", std::int64_t{1}}}) == Values{1, 3, 4, 2, 5, 6});
  const Tensor rows = run_op(Opcode::concat, {b, b, b}, {{"axis", std::int64_t{-2}}})[0];
  CHECK(rows.type == TensorType{DType::f32, {6, 2}});
  CHECK(rows.data == Values{3, 4, 5, 6, 3, 4, 5, 6, 3, 4, 5, 6});
  CHECK(values_of(Opcode::concat, {a}, {{"axis", std::int64_t{0}}}) == a.data);
}

TEST_CASE("gather picks rows, repeated ones too, and clamps indices out of range") {
  const Tensor x = counting({3, 2});
  CHECK(values_of(Opcode::gather, {x, i32({4}, {2, 0, 0, 1})}, {{"axis", std::int64_t{0}}}) ==
        Values{4, 5, 0, 1, 0, 1, 2, 3});
  CHECK(values_of(Opcode::gather, {x, i64({3}, {-1, 2, 0x1p52})}, {{"axis", std::int64_t{1}}}) ==
        Values{0, 1, 1, 2, 3, 3, 4, 5, 5});
}

TEST_CASE("scatter_add adds every update of a repeated index, clamping as gather does") {
  const Tensor base = f32({3, 2}, {10, 20, 30, 40, 50, 60});
  const Tensor updates = f32({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(values_of(Opcode::scatter_add, {base, i32({4}, {1, 1, 0, 9}), updates},
                  {{"axis", std::int64_t{0}}}) == Values{15, 26, 34, 46, 57, 68});
  // Along the last axis: column j of the updates goes to column indices[j] of the result.
  CHECK(values_of(Opcode::scatter_add, {base, i32({1}, {1}), f32({3, 1}, {1, 2, 3})},
                  {{"axis", std::int64_t{-1}}}) == Values{10, 21, 30, 42, 50, 63});
}

TEST_CASE("scatter_add undoes gather: the sum of picked rows lands where they came from") {
  const Tensor x = random_f32({7, 3}, 5);
  const Tensor indices = i64({7}, {6, 5, 4, 3, 2, 1, 0});
  const Tensor picked = run_op(Opcode::gather, {x, indices}, {{"axis", std::int64_t{0}}})[0];
  const Tensor zeros({DType::f32, {7, 3}});
  CHECK(values_of(Opcode::scatter_add, {zeros, indices, picked}, {{"axis", std::int64_t{0}}}) == x.data);
}

/// What the ops say of x [3, 5, 7, 2] by the axis at 1 or 2, with a list of 4 indices for each place before
/// it.
TEST_CASE("gather and scatter_add take a list of indices for each place before their axis") {
  const auto axis = static_cast<std::size_t>(GENERATE(1, 2));
  const Shape shape = {3, 5, 7, 2};
  Shape lists(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)), moved = shape;
  lists.push_back(4);
  moved[axis] = 4;
  Tensor indices({DType::i32, lists});
  for (std::size_t i = 0; i < indices.data.size(); ++i) indices.data[i] = static_cast<double>(i * 5 % 10) - 1;
  const Tensor x = random_f32(shape, 6), updates = random_f32(moved, 7);
  const std::size_t outer = axis == 1 ? 3 : 15, extent = axis == 1 ? 5 : 7, inner = axis == 1 ? 14 : 2;
  Values picked(updates.data.size()), sums = x.data;
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t j = 0; j < 4; ++j) {
      const double last = static_cast<double>(extent) - 1;
      const auto row = static_cast<std::size_t>(std::clamp(indices.data[o * 4 + j], 0.0, last));
      for (std::size_t i = 0; i < inner; ++i) {
        const std::size_t from = (o * extent + row) * inner + i, to = (o * 4 + j) * inner + i;
        picked[to] = x.data[from];
        sums[from] += updates.data[to];
      }
    }
  }
  const auto from_the_end = static_cast<std::int64_t>(axis) - 4;
  const Tensor y = run_op(Opcode::gather, {x, indices}, {{"axis", from_the_end}})[0];
  CHECK(y.type == TensorType{DType::f32, moved});
  CHECK(y.data == picked);
  CHECK(values_of(Opcode::scatter_add, {x, indices, updates}, {{"axis", from_the_end}}) == sums);
}

TEST_CASE("sort is stable in both directions and returns where each value stood") {
  const Tensor x = f32({6}, {2, 1, 2, 3, 1, 2});
  const std::vector<Tensor> up = run_op(Opcode::sort, {x}, {{"axis", std::int64_t{0}}});
  CHECK(up[0].data == Values{1, 1, 2, 2, 2, 3});
  CHECK(up[1].data == Values{1, 4, 0, 2, 5, 3});
  CHECK(up[1].type == TensorType{DType::i32, {6}});
  const std::vector<Tensor> down =
      run_op(Opcode::sort, {x}, {{"axis", std::int64_t{0}}, {"descending", true}});
  CHECK(down[0].data == Values{3, 2, 2, 2, 1, 1});
  CHECK(down[1].data == Values{3, 0, 2, 5, 1, 4});
}

TEST_CASE("sort orders each line of its axis by itself") {
  const std::vector<Tensor> sorted =
      run_op(Opcode::sort, {f32({3, 2}, {3, 1, 1, 2, 2, 3})}, {{"axis", std::int64_t{0}}});
  CHECK(sorted[0].data == Values{1, 1, 2, 2, 3, 3});
  CHECK(sorted[1].data == Values{1, 0, 2, 1, 0, 2});
}

TEST_CASE("sort puts NaN above every number") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = f32({5}, {nan, 1, infinity, nan, -1});
  CHECK(run_op(Opcode::sort, {x}, {{"axis", std::int64_t{0}}})[1].data == Values{4, 1, 2, 0, 3});
  CHECK(run_op(Opcode::sort, {x}, {{"axis", std::int64_t{0}}, {"descending", true}})[1].data ==
        Values{0, 3, 2, 1, 4});
}

TEST_CASE("iota counts along its axis") {
  CHECK(values_of(Opcode::iota, {}, {{"axis", std::int64_t{0}}}, TensorType{DType::i32, {3, 2}}) ==
        Values{0, 0, 1, 1, 2, 2});
  CHECK(values_of(Opcode::iota, {}, {{"axis", std::int64_t{-1}}}, TensorType{DType::f32, {2, 3}}) ==
        Values{0, 1, 2, 0, 1, 2});
}

TEST_CASE("constant repeats its value or lists its values") {
  CHECK(values_of(Opcode::constant, {}, {{"value", 2.5}}, TensorType{DType::f32, {2, 2}}) ==
        Values{2.5, 2.5, 2.5, 2.5});
  CHECK(values_of(Opcode::constant, {}, {{"values", Doubles{1, -2, 3}}}, TensorType{DType::i64, {3, 1}}) ==
        Values{1, -2, 3});
  CHECK(values_of(Opcode::constant, {}, {}, TensorType{DType::f32, {}}) == Values{0});
  // Integers are numbers, too, where a number is asked for.
  CHECK(values_of(Opcode::constant, {}, {{"value", std::int64_t{7}}}, TensorType{DType::f32, {}}) ==
        Values{7});
}

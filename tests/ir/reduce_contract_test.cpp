// Reductions and matmul against sums written out by index.
#include <cmath>
#include <limits>

#include "ir/opcodes.h"
#include "tests/ir/run_op.h"
#include "tests/support/catch.h"

using namespace rewire::ir;
using namespace rewire::testing;

namespace {

using Values = std::vector<double>;

struct MatmulCase {
  std::int64_t batch, m, k, n;
  bool transpose_a, transpose_b, shared_b;
};

/// sum over p of a[i, p] b[p, j], every index spelled out.
Values expected_product(const MatmulCase& c, const Tensor& a, const Tensor& b) {
  Values product;
  for (std::int64_t s = 0; s < c.batch; ++s) {
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        double total = 0;
        for (std::int64_t p = 0; p < c.k; ++p) {
          const std::int64_t at_a = s * c.m * c.k + (c.transpose_a ? p * c.m + i : i * c.k + p);
          const std::int64_t at_b =
              (c.shared_b ? 0 : s * c.k * c.n) + (c.transpose_b ? j * c.k + p : p * c.n + j);
          total += a.data[static_cast<std::size_t>(at_a)] * b.data[static_cast<std::size_t>(at_b)];
        }
        product.push_back(total);
      }
    }
  }
  return product;
}

}  // namespace

TEST_CASE("sum adds over any axes and keeps them with extent 1") {
  const Tensor x = random_f32({3, 5, 7}, 11);
  const auto at = [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    return x.data[static_cast<std::size_t>((i * 5 + j) * 7 + k)];
  };
  const Tensor outer = run_op(Opcode::sum, {x}, {{"axes", Ints{0, -1}}})[0];
  CHECK(outer.type == TensorType{DType::f32, {1, 5, 1}});
  const Tensor middle = run_op(Opcode::sum, {x}, {{"axes", Ints{1}}})[0];
  CHECK(middle.type == TensorType{DType::f32, {3, 1, 7}});
  Values expected_outer(5, 0);
  Values expected_middle(21, 0);
  double expected_all = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) {
      for (std::int64_t k = 0; k < 7; ++k) {
        expected_outer[static_cast<std::size_t>(j)] += at(i, j, k);
        expected_middle[static_cast<std::size_t>(i * 7 + k)] += at(i, j, k);
        expected_all += at(i, j, k);
      }
    }
  }
  CHECK(distance(outer.data, expected_outer) < 1e-13);
  CHECK(distance(middle.data, expected_middle) < 1e-13);
  CHECK(distance(values_of(Opcode::sum, {x}, {{"axes", Ints{2, 0, 1}}}), {expected_all}) < 1e-13);
}

TEST_CASE("sum of integers is exact") {
  const Tensor result = run_op(Opcode::sum, {i64({3}, {0x1p52, 0x1p51, 3})}, {{"axes", Ints{0}}})[0];
  CHECK(result.type == TensorType{DType::i64, {1}});
  CHECK(result.data == Values{0x1p52 + 0x1p51 + 3});
}

TEST_CASE("max takes the largest, of negative numbers too, and passes NaN on") {
  const Tensor x = f32({2, 3}, {-5, -2, -9, 4, std::numeric_limits<double>::quiet_NaN(), 7});
  const Values rows = values_of(Opcode::max, {x}, {{"axes", Ints{1}}});
  CHECK(rows[0] == -2);
  CHECK(std::isnan(rows[1]));
  const Values columns = values_of(Opcode::max, {x}, {{"axes", Ints{0}}});
  CHECK(columns[0] == 4);
  CHECK(std::isnan(columns[1]));
  CHECK(columns[2] == 7);
}

TEST_CASE("argmax gives the first of a tie, as i32, and the first NaN above all") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = f32({4, 3}, {1, 3, 3, -1, -1, -2, 0, nan, nan, nan, 9, 1});
  const Tensor rows = run_op(Opcode::argmax, {x}, {{"axis", std::int64_t{-1}}})[0];
  CHECK(rows.type == TensorType{DType::i32, {4, 1}});
  CHECK(rows.data == Values{1, 0, 1, 0});
  const Tensor columns =
      run_op(Opcode::argmax, {i32({2, 3}, {1, 5, 2, 4, 5, 0})}, {{"axis", std::int64_t{0}}})[0];
  CHECK(columns.type == TensorType{DType::i32, {1, 3}});
  CHECK(columns.data == Values{1, 0, 0});
}

TEST_CASE("matmul multiplies with every transpose, batched, and with one b for all") {
  for (std::int64_t batch : {1, 6}) {
    for (int bits = 0; bits < 8; ++bits) {
      const MatmulCase c{batch, 5, 7, 3, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
      CAPTURE(batch, c.transpose_a, c.transpose_b, c.shared_b);
      Shape a = batch == 1 ? Shape() : Shape{2, 3};
      Shape b = c.shared_b ? Shape() : a;
      Shape result = a;
      a.insert(a.end(), {c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k});
      b.insert(b.end(), {c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n});
      result.insert(result.end(), {c.m, c.n});
      const Tensor left = random_f32(a, 3);
      const Tensor right = random_f32(b, 4);
      const Tensor product = run_op(Opcode::matmul, {left, right},
                                    {{"transpose_a", c.transpose_a}, {"transpose_b", c.transpose_b}})[0];
      CHECK(product.type == TensorType{DType::f32, result});
      CHECK(distance(product.data, expected_product(c, left, right)) < 1e-13);
    }
  }
}

TEST_CASE("matmul of extents 1 is a product of numbers") {
  CHECK(values_of(Opcode::matmul, {f32({1, 1}, {3}), f32({1, 1}, {-4})}) == Values{-12});
}

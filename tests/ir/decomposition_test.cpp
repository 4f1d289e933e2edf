// QR and eigenvectors by their defining equations, and what they give of matrices that have no single answer.
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "tests/ir/run_op.h"
#include "tests/support/catch.h"

using namespace rewire;
using namespace rewire::ir;
using namespace rewire::testing;

namespace {

Tensor times(const Tensor& a, const Tensor& b, bool transpose_a = false) {
  return run_op(Opcode::matmul, {a, b}, {{"transpose_a", transpose_a}})[0];
}

Tensor identity(std::int64_t n) {
  Tensor matrix(TensorType{DType::f32, {n, n}});
  for (std::int64_t i = 0; i < n; ++i) matrix.data[static_cast<std::size_t>(i * n + i)] = 1;
  return matrix;
}

double& at(Tensor& matrix, std::int64_t i, std::int64_t j) {
  return matrix.data[static_cast<std::size_t>(i * matrix.type.shape[1] + j)];
}

Tensor symmetric(std::int64_t n, std::uint64_t seed) {
  Tensor a = random_f32({n, n}, seed);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) at(a, j, i) = at(a, i, j);
  }
  return a;
}

}  // namespace

TEST_CASE("qr gives orthonormal columns whose triangle has a diagonal that is not negative") {
  const std::vector<Shape> shapes = {{1, 1}, {5, 1}, {4, 4}, {7, 3}, {17, 17}};
  for (const Shape& shape : shapes) {
    CAPTURE(shape[0], shape[1]);
    const Tensor a = random_f32(shape, 3);
    const Tensor q = run_op(Opcode::qr, {a})[0];
    CHECK(q.type == a.type);
    CHECK(distance(times(q, q, true).data, identity(shape[1]).data) < 1e-13);
    Tensor r = times(q, a, true);
    for (std::int64_t i = 0; i < shape[1]; ++i) {
      CHECK(at(r, i, i) >= 0);
      for (std::int64_t j = 0; j < i; ++j) CHECK(std::abs(at(r, i, j)) < 1e-13);
    }
    CHECK(distance(times(q, r).data, a.data) < 1e-13);
  }
}

TEST_CASE("qr of a matrix of zeros is the identity, and of dependent columns still orthonormal") {
  CHECK(run_op(Opcode::qr, {Tensor(TensorType{DType::f32, {4, 4}})})[0].data == identity(4).data);
  const Tensor q = run_op(Opcode::qr, {f32({3, 3}, {1, 2, 0, 2, 4, 0, 2, 4, 0})})[0];
  CHECK(distance(times(q, q, true).data, identity(3).data) < 1e-14);
}

TEST_CASE(
    "eigh gives orthonormal eigenvectors, those of the largest eigenvalues first, of the lower triangle") {
  for (const std::int64_t n : {1, 2, 3, 8, 17}) {
    CAPTURE(n);
    Tensor a = symmetric(n, 5);
    Tensor v = run_op(Opcode::eigh, {a})[0];
    CHECK(distance(times(v, v, true).data, identity(n).data) < 1e-13);
    Tensor values = times(v, times(a, v), true);
    for (std::int64_t i = 0; i < n; ++i) {
      double largest = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        if (i != j) CHECK(std::abs(at(values, i, j)) < 1e-13);
        if (std::abs(at(v, j, i)) > std::abs(largest)) largest = at(v, j, i);
      }
      CHECK(largest > 0);
      if (i > 0) CHECK(at(values, i - 1, i - 1) >= at(values, i, i));
    }
    for (std::int64_t j = 1; j < n; ++j) at(a, 0, j) = 100;
    CHECK(run_op(Opcode::eigh, {a})[0].data == v.data);
  }
}

TEST_CASE("A stack is decomposed matrix by matrix, and one that is not finite gives NaN") {
  for (const Opcode code : {Opcode::qr, Opcode::eigh}) {
    const Tensor first = symmetric(3, 7);
    std::vector<double> stack = first.data;
    stack.insert(stack.end(), {1, 0, 0, 0, 1, 0, 0, std::numeric_limits<double>::infinity(), 1});
    const std::vector<double> both = run_op(code, {f32({2, 3, 3}, stack)})[0].data;
    const std::vector<double> alone = run_op(code, {first})[0].data;
    for (std::size_t i = 0; i < 9; ++i) {
      CHECK(both[i] == alone[i]);
      CHECK(std::isnan(both[9 + i]));
    }
  }
}

TEST_CASE("Matrices that have no such decomposition are refused") {
  CHECK_THROWS_WITH(run_op(Opcode::qr, {f32({2, 3}, Doubles(6))}),
                    REWIRE_CATCH_CONTAINS("a (operand 0) must be [..., m, n], with m at least n"));
  CHECK_THROWS_WITH(run_op(Opcode::eigh, {f32({3, 2}, Doubles(6))}),
                    REWIRE_CATCH_CONTAINS("a (operand 0) must be [..., n, n]"));
  CHECK_THROWS_AS(run_op(Opcode::qr, {f32({2}, {1, 2})}), UserError);
}

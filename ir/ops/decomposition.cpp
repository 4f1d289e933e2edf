// Orthogonal bases of real matrices, in double, by the textbook (Golub & Van Loan, Matrix Computations):
//   qr    a [m, n] = q r by Householder reflections. q [m, n] has orthonormal columns, which are chosen so
//         that the diagonal of r is not negative. If a column adds nothing to those before it, q has the
//         reflections' column. So q of a matrix of zeros is the identity.
//   eigh  a [n, n] = v diag(w) v^T by Jacobi's rotations, from the lower triangle of a. The columns of v are
//         in order of descending w. In each column, the entry of largest magnitude is positive.
// The result is NaN for a matrix with an element that is not finite.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "ir/error.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"

namespace rewire::ir {
namespace {

/// Row-major [rows, cols].
struct Matrix {
  std::span<double> data;
  std::size_t cols;
  double& operator()(std::size_t i, std::size_t j) const { return data[i * cols + j]; }
};

/// H = I - scale v v^T, with v = (1, the column's entries
/// below `pivot`), turns a column into (diagonal, 0, …).
struct Reflection {
  double scale = 0, diagonal = 0;
};

/// Computes the reflection of column `pivot` of a, and stores v's entries in that column.
Reflection reflect(const Matrix& a, std::size_t rows, std::size_t pivot) {
  const double head = a(pivot, pivot);
  double squares = 0;
  for (std::size_t i = pivot + 1; i < rows; ++i) squares += a(i, pivot) * a(i, pivot);
  if (squares == 0) return {0, head};
  const double diagonal = -std::copysign(std::sqrt(head * head + squares), head);
  for (std::size_t i = pivot + 1; i < rows; ++i) a(i, pivot) /= head - diagonal;
  return {(diagonal - head) / diagonal, diagonal};
}

/// Applies the reflection whose v is in column `pivot` of `from` to column j of `to`.
void apply(double scale, const Matrix& from, std::size_t rows, std::size_t pivot, const Matrix& to,
           std::size_t j) {
  double product = to(pivot, j);
  for (std::size_t i = pivot + 1; i < rows; ++i) product += from(i, pivot) * to(i, j);
  product *= scale;
  to(pivot, j) -= product;
  for (std::size_t i = pivot + 1; i < rows; ++i) to(i, j) -= product * from(i, pivot);
}

void orthogonal_factor(std::vector<double> columns, std::size_t rows, std::size_t cols,
                       std::span<double> result) {
  const Matrix a{columns, cols}, q{result, cols};
  std::vector<Reflection> reflections;
  for (std::size_t k = 0; k < cols; ++k) {
    reflections.push_back(reflect(a, rows, k));
    for (std::size_t j = k + 1; j < cols; ++j) apply(reflections[k].scale, a, rows, k, a, j);
  }
  std::ranges::fill(result, 0.0);
  for (std::size_t j = 0; j < cols; ++j) {
    q(j, j) = reflections[j].diagonal < 0 ? -1 : 1;
    for (std::size_t k = j + 1; k-- > 0;) apply(reflections[k].scale, a, rows, k, q, j);
  }
}

/// Rotates the rows and columns p and q of a so that a(p, q) becomes 0.
/// Rotates the columns of v in the same way.
void rotate(const Matrix& a, const Matrix& v, std::size_t p, std::size_t q) {
  const double ratio = (a(q, q) - a(p, p)) / (2 * a(p, q));
  const double t = std::copysign(1 / (std::abs(ratio) + std::hypot(1, ratio)), ratio);
  const double c = 1 / std::hypot(1, t), s = t * c;
  for (std::size_t k = 0; k < a.cols; ++k) {
    const double x = a(k, p), y = a(k, q);
    a(k, p) = c * x - s * y;
    a(k, q) = s * x + c * y;
  }
  for (std::size_t k = 0; k < a.cols; ++k) {
    const double x = a(p, k), y = a(q, k);
    a(p, k) = c * x - s * y;
    a(q, k) = s * x + c * y;
  }
  a(p, q) = a(q, p) = 0;
  for (std::size_t k = 0; k < a.cols; ++k) {
    const double x = v(k, p), y = v(k, q);
    v(k, p) = c * x - s * y;
    v(k, q) = s * x + c * y;
  }
}

void diagonalise(const Matrix& a, const Matrix& v) {
  constexpr int kMostSweeps = 60;  // about ten are enough
  const std::size_t n = a.cols;
  double largest = 0;
  for (const double x : a.data) largest = std::max(largest, std::abs(x));
  const double negligible = largest * std::numeric_limits<double>::epsilon() * 1e-2;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool rotated = false;
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        if (std::abs(a(p, q)) <= negligible) continue;
        rotate(a, v, p, q);
        rotated = true;
      }
    }
    if (!rotated) return;
  }
}

void eigenvectors(std::vector<double> symmetric, std::size_t n, std::span<double> result) {
  std::vector<double> unsorted(n * n, 0.0);
  const Matrix a{symmetric, n}, v{unsorted, n}, sorted{result, n};
  for (std::size_t i = 0; i < n; ++i) {
    v(i, i) = 1;
    for (std::size_t j = 0; j < i; ++j) a(j, i) = a(i, j);
  }
  diagonalise(a, v);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t j) { return a(j, j); });
  for (std::size_t j = 0; j < n; ++j) {
    double largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (std::abs(v(i, order[j])) > std::abs(largest)) largest = v(i, order[j]);
    }
    for (std::size_t i = 0; i < n; ++i) sorted(i, j) = largest < 0 ? -v(i, order[j]) : v(i, order[j]);
  }
}

/// Calls body(a copy of the matrix, the span of its result) for each finite matrix of the operand.
template <class Body>
void each_matrix(EvalContext& context, Body body) {
  const Shape& shape = context.in(0).type.shape;
  const auto size = static_cast<std::size_t>(shape[shape.size() - 2] * shape.back());
  const std::vector<double>& a = context.in(0).data;
  for (std::size_t begin = 0; begin < a.size(); begin += size) {
    const auto first = a.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::span<double> result = std::span(context.out().data).subspan(begin, size);
    std::vector<double> matrix(first, first + static_cast<std::ptrdiff_t>(size));
    if (std::ranges::all_of(matrix, [](double x) { return std::isfinite(x); })) {
      body(std::move(matrix), result);
    } else {
      std::ranges::fill(result, std::numeric_limits<double>::quiet_NaN());
    }
  }
}

/// The extents of the operand's matrices, and their number.
struct MatrixExtents {
  double rows, cols, count;
};
MatrixExtents extents_of(const TensorType& type) {
  const auto rows = static_cast<double>(type.shape[type.shape.size() - 2]);
  const auto cols = static_cast<double>(type.shape.back());
  return {rows, cols, static_cast<double>(type.elements()) / (rows * cols)};
}

}  // namespace

std::vector<TensorType> infer_qr(const InferContext& context) {
  require_float(context, 0);
  const TensorType& a = context.operand(0);
  if (a.rank() < 2 || a.shape[a.shape.size() - 2] < a.shape.back())
    user_error("a (operand 0) must be [..., m, n], with m at least n");
  return {a};
}

void eval_qr(EvalContext& context) {
  const Shape& shape = context.in(0).type.shape;
  const auto rows = static_cast<std::size_t>(shape[shape.size() - 2]);
  const auto cols = static_cast<std::size_t>(shape.back());
  each_matrix(context, [&](std::vector<double> a, std::span<double> q) {
    orthogonal_factor(std::move(a), rows, cols, q);
  });
}

// The reflections take 2 n^2 (m - n / 3) operations, and q takes as many again.
Work work_qr(const WorkContext& context) {
  const MatrixExtents a = extents_of(context.operands[0]);
  return {a.count * 4 * a.cols * a.cols * (a.rows - a.cols / 3), 0};
}

std::vector<TensorType> infer_eigh(const InferContext& context) {
  require_float(context, 0);
  const TensorType& a = context.operand(0);
  if (a.rank() < 2 || a.shape[a.shape.size() - 2] != a.shape.back())
    user_error("a (operand 0) must be [..., n, n]");
  return {a};
}

void eval_eigh(EvalContext& context) {
  const auto n = static_cast<std::size_t>(context.in(0).type.shape.back());
  each_matrix(context, [&](std::vector<double> a, std::span<double> v) { eigenvectors(std::move(a), n, v); });
}

// A rough count for the reduction to a tridiagonal matrix and the transformation back.
Work work_eigh(const WorkContext& context) {
  const MatrixExtents a = extents_of(context.operands[0]);
  return {a.count * 9 * a.cols * a.cols * a.cols, 0};
}

}  // namespace rewire::ir

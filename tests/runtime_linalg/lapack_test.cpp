// QR and SVD: their defining equations on odd shapes, their signs, and that threads change nothing.
#include "runtime/linalg/lapack.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "ir/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::message_of;
using Doubles = std::vector<double>;

Doubles random_matrices(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Doubles a(count);
  for (double& x : a) x = normal(random);
  return a;
}

/// The largest |a b - c| of a [n, k], b [k, m], c [n, m].
double product_error(std::span<const double> a, std::span<const double> b, std::span<const double> c,
                     std::size_t n, std::size_t k, std::size_t m) {
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) sum += a[i * k + l] * b[l * m + j];
      worst = std::max(worst, std::abs(sum - c[i * m + j]));
    }
  }
  return worst;
}

/// The largest entry of |x^T x - I| for x [n, k].
double orthonormality_error(std::span<const double> x, std::size_t n, std::size_t k) {
  double worst = 0;
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t j = 0; j < k; ++j) {
      double sum = i == j ? -1 : 0;
      for (std::size_t l = 0; l < n; ++l) sum += x[l * k + i] * x[l * k + j];
      worst = std::max(worst, std::abs(sum));
    }
  }
  return worst;
}

Doubles transposed(std::span<const double> x, std::size_t rows, std::size_t cols) {
  Doubles t(x.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) t[j * rows + i] = x[i * cols + j];
  }
  return t;
}

const std::vector<std::pair<std::size_t, std::size_t>> kShapes = {{1, 1}, {5, 1}, {7, 3}, {16, 16}, {33, 17}};

TEST_CASE("QR gives orthonormal columns and a triangle with a diagonal that is not negative") {
  for (const auto& [rows, cols] : kShapes) {
    CAPTURE(rows, cols);
    constexpr std::size_t kCount = 3;
    const Doubles a = random_matrices(kCount * rows * cols, 1);
    Doubles q(a.size(), NAN), r(kCount * cols * cols, NAN);
    qr({kCount, rows, cols}, a, q, r);
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto qi = std::span(q).subspan(i * rows * cols, rows * cols);
      const auto ri = std::span(r).subspan(i * cols * cols, cols * cols);
      CHECK(orthonormality_error(qi, rows, cols) < 1e-13);
      CHECK(product_error(qi, ri, std::span(a).subspan(i * rows * cols, rows * cols), rows, cols, cols) <
            1e-12);
      for (std::size_t row = 0; row < cols; ++row) {
        CHECK(ri[row * cols + row] >= 0);
        for (std::size_t col = 0; col < row; ++col) CHECK(ri[row * cols + col] == 0);
      }
    }
  }
}

TEST_CASE(
    "Eigenvectors of symmetric matrices are orthonormal, by descending eigenvalues of the lower triangle") {
  for (const std::size_t n : {1, 2, 7, 33}) {
    CAPTURE(n);
    constexpr std::size_t kCount = 3;
    Doubles a = random_matrices(kCount * n * n, 9);
    for (std::size_t m = 0; m < kCount; ++m) {
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < i; ++j) a[(m * n + j) * n + i] = a[(m * n + i) * n + j];
      }
    }
    Doubles w(kCount * n, NAN), v(a.size(), NAN), again(a.size(), NAN);
    eigh({kCount, n, n}, a, w, v);
    for (std::size_t m = 0; m < kCount; ++m) {
      const auto vectors = std::span(v).subspan(m * n * n, n * n);
      CHECK(orthonormality_error(vectors, n, n) < 1e-13);
      Doubles scaled(n * n);
      for (std::size_t i = 0; i < n * n; ++i) scaled[i] = vectors[i] * w[m * n + i % n];
      CHECK(product_error(std::span(a).subspan(m * n * n, n * n), vectors, scaled, n, n, n) < 1e-12);
      CHECK(std::ranges::is_sorted(std::span(w).subspan(m * n, n), std::greater()));
    }
    for (std::size_t j = 1; j < n; ++j) a[j] = 100;  // above the diagonal of the first
    eigh({kCount, n, n}, a, w, again, 1);
    CHECK(again == v);
  }
}

TEST_CASE("SVD gives orthonormal factors, descending values, and each pair's sign by its largest entry") {
  for (const auto& [tall, wide] : kShapes) {
    for (const bool flip : {false, true}) {
      const std::size_t rows = flip ? wide : tall, cols = flip ? tall : wide, k = wide;
      CAPTURE(rows, cols);
      const Doubles a = random_matrices(rows * cols, 2);
      Doubles u(rows * k, NAN), s(k, NAN), vt(k * cols, NAN);
      svd({1, rows, cols}, a, u, s, vt);
      CHECK(orthonormality_error(u, rows, k) < 1e-13);
      CHECK(orthonormality_error(transposed(vt, k, cols), cols, k) < 1e-13);
      CHECK(std::ranges::is_sorted(s, std::greater<>()));
      CHECK(s.back() > 0);
      Doubles us = u;
      for (std::size_t i = 0; i < us.size(); ++i) us[i] *= s[i % k];
      CHECK(product_error(us, vt, a, rows, k, cols) < 1e-12);
      for (std::size_t j = 0; j < k; ++j) {
        double largest = 0;
        for (std::size_t i = 0; i < rows; ++i) {
          if (std::abs(u[i * k + j]) > std::abs(largest)) largest = u[i * k + j];
        }
        CHECK(largest > 0);
      }
    }
  }
}

TEST_CASE("Singular values alone are those of the whole decomposition") {
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{1, 1}, {7, 3}, {4, 9}, {33, 33}}) {
    CAPTURE(rows, cols);
    const std::size_t k = std::min(rows, cols);
    const Doubles a = random_matrices(2 * rows * cols, 11);
    Doubles u(2 * rows * k), s(2 * k), vt(2 * k * cols), alone(2 * k, NAN);
    svd({2, rows, cols}, a, u, s, vt);
    singular_values({2, rows, cols}, a, alone);
    for (std::size_t i = 0; i < s.size(); ++i) CHECK(alone[i] == Approx(s[i]).epsilon(1e-12));
  }
}

TEST_CASE("The largest singular triples are the first of the whole decomposition, threads or not") {
  struct Case {
    std::size_t rows, cols, largest;
  };
  for (const auto& [rows, cols, largest] :
       {Case{1, 1, 1}, Case{7, 3, 2}, Case{4, 9, 4}, Case{40, 40, 5}, Case{33, 20, 20}, Case{12, 50, 1}}) {
    CAPTURE(rows, cols, largest);
    constexpr std::size_t kCount = 3;
    const std::size_t k = std::min(rows, cols);
    Doubles a = random_matrices(kCount * rows * cols, 13);
    Doubles u(kCount * rows * k), s(kCount * k), vt(kCount * k * cols);
    Doubles few_u(kCount * rows * largest, NAN), few_s(kCount * largest, NAN),
        few_vt(kCount * largest * cols, NAN);
    svd({kCount, rows, cols}, a, u, s, vt);
    svd_of_largest({kCount, rows, cols}, largest, a, few_u, few_s, few_vt, 3);
    for (std::size_t m = 0; m < kCount; ++m) {
      for (std::size_t j = 0; j < largest; ++j) {
        CHECK(few_s[m * largest + j] == Approx(s[m * k + j]).epsilon(1e-11));
        double worst = 0;
        for (std::size_t i = 0; i < rows; ++i)
          worst = std::max(worst, std::abs(few_u[(m * rows + i) * largest + j] - u[(m * rows + i) * k + j]));
        for (std::size_t i = 0; i < cols; ++i)
          worst =
              std::max(worst, std::abs(few_vt[(m * largest + j) * cols + i] - vt[(m * k + j) * cols + i]));
        CHECK(worst < 1e-8);
      }
    }
    Doubles one_u(few_u.size()), one_s(few_s.size()), one_vt(few_vt.size());
    svd_of_largest({kCount, rows, cols}, largest, a, one_u, one_s, one_vt, 1);
    CHECK(one_u == few_u);
    CHECK(one_s == few_s);
    CHECK(one_vt == few_vt);
  }
}

TEST_CASE(
    "The largest triples of a matrix of lower rank, or of zeros, are those of the whole decomposition") {
  const Doubles rank_one = {1, 2, 2, 4, 3, 6};  // [3, 2]
  for (const Doubles& a : {rank_one, Doubles(6, 0.0)}) {
    Doubles u(6), s(2), vt(4), few_u(6, NAN), few_s(2, NAN), few_vt(4, NAN);
    svd({1, 3, 2}, a, u, s, vt);
    svd_of_largest({1, 3, 2}, 2, a, few_u, few_s, few_vt);
    CHECK(few_s == s);
    CHECK(few_u == u);
    CHECK(few_vt == vt);
  }
  CHECK(message_of<UserError>([&] {
          Doubles u(6), s(3), vt(6);
          svd_of_largest({1, 3, 2}, 3, rank_one, u, s, vt);
        }) == "a matrix of 3 x 2 has no 3 largest singular values");
}

TEST_CASE("A matrix of zeros, and one of rank one, have their decompositions") {
  const Doubles zeros(6, 0.0);
  Doubles u(6), s(2, NAN), vt(4);
  svd({1, 3, 2}, zeros, u, s, vt);
  CHECK(s == Doubles{0, 0});
  CHECK(orthonormality_error(u, 3, 2) < 1e-13);
  Doubles q(6), r(4);
  qr({1, 3, 2}, Doubles{1, 2, 1, 2, 1, 2}, q, r);
  CHECK(r[0] == Approx(std::sqrt(3.0)));
  CHECK(r[1] == Approx(2 * std::sqrt(3.0)));
  CHECK(std::abs(r[3]) < 1e-14);
}

TEST_CASE("Threads, and the other matrices of a batch, do not change a bit") {
  constexpr std::size_t kCount = 5, kSize = 70;
  const Doubles a = random_matrices(kCount * kSize * kSize, 3);
  const auto decompose = [&](std::span<const double> matrices, std::size_t count, int threads) {
    Doubles all(count * (4 * kSize * kSize + kSize));
    auto rest = std::span(all);
    const auto take = [&](std::size_t n) {
      const auto part = rest.first(n);
      rest = rest.subspan(n);
      return part;
    };
    const std::size_t square = count * kSize * kSize;
    const auto q = take(square), r = take(square), u = take(square), vt = take(square),
               s = take(count * kSize);
    qr({count, kSize, kSize}, matrices, q, r, threads);
    svd({count, kSize, kSize}, matrices, u, s, vt, threads);
    return all;
  };
  const Doubles one = decompose(a, kCount, 1);
  CHECK(decompose(a, kCount, 3) == one);
  CHECK(decompose(a, kCount, 0) == one);
  const Doubles last = decompose(std::span(a).last(kSize * kSize), 1, 1);
  CHECK(std::equal(last.begin(), last.begin() + kSize * kSize, one.begin() + (kCount - 1) * kSize * kSize));
}

TEST_CASE("What cannot be decomposed is refused") {
  Doubles out(6), more(6), values(2);
  CHECK(message_of<UserError>([&] { qr({1, 2, 3}, Doubles(6), out, more); }) ==
        "QR needs at least as many rows as columns, not 2 x 3");
  CHECK(message_of<UserError>([&] { svd({1, 0, 3}, {}, out, values, more); }) ==
        "a matrix to decompose has 1 to 32768 rows and columns, not 0 x 3");
  const Doubles bad = {1, 2, 3, std::numeric_limits<double>::quiet_NaN(), 5, 6};
  CHECK(message_of<UserError>([&] { svd({1, 3, 2}, bad, out, values, more); }) ==
        "a matrix to decompose has the element nan");
}

}  // namespace
}  // namespace rewire::runtime

// QR, eigenvectors and singular value decomposition of batches of matrices, by LAPACK. Each matrix is worked on by one
// thread, so the results do not depend on how many there are.
#pragma once

#include <cstddef>
#include <span>

namespace rewire::runtime {

/// `count` matrices of rows x cols, row-major, one behind the other.
struct MatrixBatch {
  std::size_t count = 0, rows = 0, cols = 0;
};

/// Whether LAPACK is installed.
bool has_lapack();

/// a = q r, with q [rows, cols] of orthonormal columns and r [cols, cols] upper triangular with a diagonal >=
/// 0; so q of a standard normal matrix is uniformly distributed. UserError unless rows >= cols >= 1, all of
/// `a` is finite, and LAPACK is installed. threads = 0: usable_cores().
void qr(const MatrixBatch& batch, std::span<const double> a, std::span<double> q, std::span<double> r,
        int threads = 0);

/// a = v diag(w) v^T of symmetric matrices [n, n], whose lower triangles are read: w [n] descending, v [n, n]. The
/// largest entry of each column of v is positive. Errors as of svd.
void eigh(const MatrixBatch& batch, std::span<const double> a, std::span<double> w, std::span<double> v,
          int threads = 0);

/// a = u diag(s) vt, with k = min(rows, cols), u [rows, k], s [k] >= 0 and descending, vt [k, cols]. The
/// largest entry of each column of u is positive. Errors as of qr, and RuntimeFailure if LAPACK finds no
/// decomposition.
void svd(const MatrixBatch& batch, std::span<const double> a, std::span<double> u, std::span<double> s,
         std::span<double> vt, int threads = 0);

/// The `largest` first columns of u, values of s and rows of vt alone: u [rows, largest], s [largest], vt
/// [largest, cols]. Several times as fast where they are few. UserError unless 1 <= largest <= min(rows,
/// cols).
void svd_of_largest(const MatrixBatch& batch, std::size_t largest, std::span<const double> a,
                    std::span<double> u, std::span<double> s, std::span<double> vt, int threads = 0);

/// c = a b^T of a [m, k] and b [n, k], c [m, n]: the products of their rows, on the calling thread. UserError unless
/// LAPACK is installed.
void row_products(std::span<const float> a, std::span<const float> b, std::size_t k, std::span<float> c);

/// The singular values alone, [count, k] and descending. Errors as of svd.
void singular_values(const MatrixBatch& batch, std::span<const double> a, std::span<double> s,
                     int threads = 0);

}  // namespace rewire::runtime

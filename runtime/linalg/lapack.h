// QR, eigenvectors and singular value decomposition of batches of matrices, by LAPACK. One thread works on
// each matrix, so the results do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <span>

namespace rewire::runtime {

/// A batch of `count` matrices, rows x cols, row-major, one after the other.
struct MatrixBatch {
  std::size_t count = 0, rows = 0, cols = 0;
};

/// Returns true if LAPACK is installed.
bool has_lapack();

/// Computes a = q r, with q [rows, cols] of orthonormal columns and r [cols, cols] upper triangular with a
/// diagonal >= 0. So q of a standard normal matrix is uniformly distributed. threads = 0: usable_cores().
/// Throws UserError unless rows >= cols >= 1, all of `a` is finite, and LAPACK is installed.
void qr(const MatrixBatch& batch, std::span<const double> a, std::span<double> q, std::span<double> r,
        int threads = 0);

/// Computes a = v diag(w) v^T of symmetric matrices [n, n], reading their lower triangles: w [n] descending,
/// v [n, n]. The largest entry of each column of v is positive. Errors as for svd.
void eigh(const MatrixBatch& batch, std::span<const double> a, std::span<double> w, std::span<double> v,
          int threads = 0);

/// Computes a = u diag(s) vt, with k = min(rows, cols), u [rows, k], s [k] >= 0 and descending, vt [k,
/// cols]. The largest entry of each column of u is positive. Errors as for qr; throws RuntimeFailure if
/// LAPACK finds no decomposition.
void svd(const MatrixBatch& batch, std::span<const double> a, std::span<double> u, std::span<double> s,
         std::span<double> vt, int threads = 0);

/// Computes only the first `largest` columns of u, values of s and rows of vt: u [rows, largest], s
/// [largest], vt [largest, cols]. Several times as fast as svd if they are few. Throws UserError unless 1 <=
/// largest <= min(rows, cols).
void svd_of_largest(const MatrixBatch& batch, std::size_t largest, std::span<const double> a,
                    std::span<double> u, std::span<double> s, std::span<double> vt, int threads = 0);

/// Computes c = a b^T on the calling thread, with a [m, k], b [n, k] and c [m, n]: the products of their
/// rows. Throws UserError unless LAPACK is installed.
void row_products(std::span<const float> a, std::span<const float> b, std::size_t k, std::span<float> c);

/// Computes only the singular values, [count, k] and descending. Errors as for svd.
void singular_values(const MatrixBatch& batch, std::span<const double> a, std::span<double> s,
                     int threads = 0);

}  // namespace rewire::runtime

// LAPACK is opened on first use: OpenBLAS starts one thread per core when it is loaded. Only a
// run that needs a decomposition should pay for that. Matrices are row-major here and
// column-major in LAPACK, that is, transposed.
#include "runtime/linalg/lapack.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ir/error.h"
#include "runtime/device/process.h"
#include "runtime/device/thread_pool.h"

namespace rewire::runtime {
namespace {

constexpr const char* kLibrary = "liblapack.so.3";

using Int = std::int32_t;
using Length = std::size_t;  // of a Fortran character argument, passed after the others
using Dgeqrf = void (*)(const Int* m, const Int* n, double* a, const Int* lda, double* tau, double* work,
                        const Int* lwork, Int* info);
using Dorgqr = void (*)(const Int* m, const Int* n, const Int* k, double* a, const Int* lda,
                        const double* tau, double* work, const Int* lwork, Int* info);
using Dgesdd = void (*)(const char* jobz, const Int* m, const Int* n, double* a, const Int* lda, double* s,
                        double* u, const Int* ldu, double* vt, const Int* ldvt, double* work,
                        const Int* lwork, Int* iwork, Int* info, Length);
using Dsyevr = void (*)(const char* jobz, const char* range, const char* uplo, const Int* n, double* a,
                        const Int* lda, const double* vl, const double* vu, const Int* il, const Int* iu,
                        const double* abstol, Int* m, double* w, double* z, const Int* ldz, Int* isuppz,
                        double* work, const Int* lwork, Int* iwork, const Int* liwork, Int* info, Length,
                        Length, Length);
using Dsyevd = void (*)(const char* jobz, const char* uplo, const Int* n, double* a, const Int* lda,
                        double* w, double* work, const Int* lwork, Int* iwork, const Int* liwork, Int* info,
                        Length, Length);
using Dsyrk = void (*)(const char* uplo, const char* trans, const Int* n, const Int* k, const double* alpha,
                       const double* a, const Int* lda, const double* beta, double* c, const Int* ldc, Length,
                       Length);
using Dgemm = void (*)(const char* transa, const char* transb, const Int* m, const Int* n, const Int* k,
                       const double* alpha, const double* a, const Int* lda, const double* b, const Int* ldb,
                       const double* beta, double* c, const Int* ldc, Length, Length);
using Sgemm = void (*)(const char* transa, const char* transb, const Int* m, const Int* n, const Int* k,
                       const float* alpha, const float* a, const Int* lda, const float* b, const Int* ldb,
                       const float* beta, float* c, const Int* ldc, Length, Length);

struct Lapack {
  Dgeqrf dgeqrf = nullptr;
  Dorgqr dorgqr = nullptr;
  Dgesdd dgesdd = nullptr;
  Dsyevr dsyevr = nullptr;
  Dsyevd dsyevd = nullptr;
  Dsyrk dsyrk = nullptr;
  Dgemm dgemm = nullptr;
  Sgemm sgemm = nullptr;
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) user_error("{} lacks {}: install libopenblas0 or another LAPACK", kLibrary, name);
}

const Lapack& lapack() {
  static const Lapack functions = [] {
    void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      user_error("a decomposition of matrices needs LAPACK, and {} cannot be opened: install libopenblas0",
                 kLibrary);
    }
    Lapack f;
    find(library, "dgeqrf_", f.dgeqrf);
    find(library, "dorgqr_", f.dorgqr);
    find(library, "dgesdd_", f.dgesdd);
    find(library, "dsyevr_", f.dsyevr);
    find(library, "dsyevd_", f.dsyevd);
    find(library, "dsyrk_", f.dsyrk);
    find(library, "dgemm_", f.dgemm);
    find(library, "sgemm_", f.sgemm);
    // Each thread computes one matrix. OpenBLAS must not split a matrix: rounding would
    // depend on the number of cores.
    if (void* set_threads = ::dlsym(library, "openblas_set_num_threads"); set_threads != nullptr) {
      reinterpret_cast<void (*)(int)>(set_threads)(1);
    }
    return f;
  }();
  return functions;
}

void check(const MatrixBatch& batch, std::span<const double> a) {
  constexpr std::size_t kMost = std::size_t{1} << 15;
  if (batch.rows < 1 || batch.cols < 1 || batch.rows > kMost || batch.cols > kMost) {
    user_error("a matrix to decompose has 1 to {} rows and columns, not {} x {}", kMost, batch.rows,
               batch.cols);
  }
  if (a.size() != batch.count * batch.rows * batch.cols) {
    internal_error("{} numbers for {} matrices of {} x {}", a.size(), batch.count, batch.rows, batch.cols);
  }
  const auto bad = std::ranges::find_if(a, [](double x) { return !std::isfinite(x); });
  if (bad != a.end()) user_error("a matrix to decompose has the element {}", *bad);
}

/// Calls body(i) for every matrix of the batch. A single thread is the caller's, which may be a pool's.
template <class Body>
void for_each_matrix(const MatrixBatch& batch, int threads, Body body) {
  const int most = std::min(threads > 0 ? threads : usable_cores(),
                            static_cast<int>(std::max<std::size_t>(batch.count, 1)));
  if (most == 1) {
    for (std::size_t i = 0; i < batch.count; ++i) body(i);
    return;
  }
  ThreadPool pool(most);
  pool.run(static_cast<std::int64_t>(batch.count), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) body(static_cast<std::size_t>(i));
  });
}

void transpose(std::span<const double> from, std::span<double> to, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) to[j * rows + i] = from[i * cols + j];
  }
}

void expect_success(const char* name, Int info) {
  if (info != 0) throw RuntimeFailure(fmt::format("LAPACK's {} failed with info {}", name, info));
}

void qr_of_one(std::size_t rows, std::size_t cols, std::span<const double> a, std::span<double> q,
               std::span<double> r) {
  const Int m = static_cast<Int>(rows), n = static_cast<Int>(cols), all = -1;
  std::vector<double> columns(rows * cols), tau(cols), work(1);
  transpose(a, columns, rows, cols);
  Int info = 0;
  lapack().dgeqrf(&m, &n, columns.data(), &m, tau.data(), work.data(), &all,
                  &info);  // queries the size of `work`
  const Int size = std::max(static_cast<Int>(work[0]), n * 64);
  work.resize(static_cast<std::size_t>(size));
  lapack().dgeqrf(&m, &n, columns.data(), &m, tau.data(), work.data(), &size, &info);
  expect_success("dgeqrf", info);
  for (std::size_t i = 0; i < cols; ++i) {
    for (std::size_t j = 0; j < cols; ++j) r[i * cols + j] = j >= i ? columns[j * rows + i] : 0.0;
  }
  lapack().dorgqr(&m, &n, &n, columns.data(), &m, tau.data(), work.data(), &size, &info);
  expect_success("dorgqr", info);
  transpose(columns, q, cols, rows);
  for (std::size_t i = 0; i < cols; ++i) {
    if (r[i * cols + i] >= 0) continue;
    for (std::size_t j = i; j < cols; ++j) r[i * cols + j] = -r[i * cols + j];
    for (std::size_t row = 0; row < rows; ++row) q[row * cols + i] = -q[row * cols + i];
  }
}

/// A column of u and its row of vt have a free sign: makes the largest element of u's column positive.
void fix_signs(std::size_t rows, std::size_t cols, std::size_t k, std::span<double> u, std::span<double> vt) {
  for (std::size_t j = 0; j < k; ++j) {
    double largest = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      if (std::abs(u[i * k + j]) > std::abs(largest)) largest = u[i * k + j];
    }
    if (largest >= 0) continue;
    for (std::size_t i = 0; i < rows; ++i) u[i * k + j] = -u[i * k + j];
    for (std::size_t i = 0; i < cols; ++i) vt[j * cols + i] = -vt[j * cols + i];
  }
}

/// LAPACK reads columns, so its upper triangle is the lower one here. Its eigenvalues are ascending.
void eigh_of_one(std::size_t order, std::span<const double> a, std::span<double> w, std::span<double> v) {
  const Int n = static_cast<Int>(order), all = -1;
  std::vector<double> columns(a.begin(), a.end()), ascending(order), work(1);
  std::vector<Int> integers(1);
  Int info = 0;
  const auto run = [&](const Int* size, const Int* integer_size) {
    lapack().dsyevd("V", "U", &n, columns.data(), &n, ascending.data(), work.data(), size, integers.data(),
                    integer_size, &info, 1, 1);
    expect_success("dsyevd", info);
  };
  run(&all, &all);  // queries the sizes of both work arrays
  const Int size = static_cast<Int>(work[0]), integer_size = integers[0];
  work.resize(static_cast<std::size_t>(size));
  integers.resize(static_cast<std::size_t>(integer_size));
  run(&size, &integer_size);
  std::ranges::reverse_copy(ascending, w.begin());
  for (std::size_t i = 0; i < order; ++i) {
    for (std::size_t j = 0; j < order; ++j) v[i * order + j] = columns[(order - 1 - j) * order + i];
  }
  fix_signs(order, 0, order, v, {});
}

/// LAPACK sees the transpose of a, whose decomposition is v diag(s) ut. So LAPACK's column-major v is vt
/// here. If u and vt are empty, only s is computed.
void svd_of_one(std::size_t rows, std::size_t cols, std::span<const double> a, std::span<double> u,
                std::span<double> s, std::span<double> vt) {
  const Int m = static_cast<Int>(cols), n = static_cast<Int>(rows), k = std::min(m, n), all = -1;
  std::vector<double> columns(a.begin(), a.end()), work(1);
  std::vector<Int> integers(8 * static_cast<std::size_t>(k));
  Int info = 0;
  const char* job = u.empty() ? "N" : "S";
  const auto run = [&](const Int* size) {
    lapack().dgesdd(job, &m, &n, columns.data(), &m, s.data(), vt.data(), &m, u.data(), &k, work.data(), size,
                    integers.data(), &info, 1);
    expect_success("dgesdd", info);
  };
  run(&all);  // queries the size of `work`
  const Int size = static_cast<Int>(work[0]);
  work.resize(static_cast<std::size_t>(size));
  run(&size);
  if (!u.empty()) fix_signs(rows, cols, std::min(rows, cols), u, vt);
}

/// Returns the eigenvectors z [n, count] (column by column) of the `count` largest eigenvalues of the
/// symmetric g [n, n], in descending order. Reads only the lower triangle of g and overwrites g.
std::vector<double> largest_eigenvectors(std::vector<double>& g, std::size_t order, std::size_t count) {
  const Int n = static_cast<Int>(order), first = static_cast<Int>(order - count) + 1, all = -1;
  const double none = 0;
  std::vector<double> values(order), vectors(order * count), work(1);
  std::vector<Int> support(2 * count), integers(1);
  Int found = 0, info = 0;
  const auto run = [&](const Int* size, const Int* integer_size) {
    lapack().dsyevr("V", "I", "L", &n, g.data(), &n, &none, &none, &first, &n, &none, &found, values.data(),
                    vectors.data(), &n, support.data(), work.data(), size, integers.data(), integer_size,
                    &info, 1, 1, 1);
    expect_success("dsyevr", info);
  };
  run(&all, &all);  // queries the sizes of both work arrays
  const Int size = static_cast<Int>(work[0]), integer_size = integers[0];
  work.resize(static_cast<std::size_t>(size));
  integers.resize(static_cast<std::size_t>(integer_size));
  run(&size, &integer_size);
  std::vector<double> descending(vectors.size());
  for (std::size_t j = 0; j < count; ++j) {
    std::copy_n(vectors.begin() + static_cast<std::ptrdiff_t>((count - 1 - j) * order), order,
                descending.begin() + static_cast<std::ptrdiff_t>(j * order));
  }
  return descending;
}

/// Largest ratio of the squares of the largest and the last singular value. Rounding changes the eigenvalues
/// of a Gram matrix by 2^-53 of the largest one. At this ratio, that is 1e-12 of the last one.
constexpr double kWidestSquares = 1e4;

/// Decomposes by the eigenvectors of the smaller Gram matrix. B [m, n] (column by column) is the transpose
/// of a. B^T B w = s^2 w gives u = w and v = B w / s; B B^T w = s^2 w gives v = w and u = B^T w / s. Returns
/// false, with nothing useful written, if the singular values are too far apart.
bool svd_by_gram(std::size_t rows, std::size_t cols, std::size_t count, std::span<const double> a,
                 std::span<double> u, std::span<double> s, std::span<double> vt) {
  const bool left = rows <= cols;
  const std::size_t order = std::min(rows, cols), other = std::max(rows, cols);
  const Int n = static_cast<Int>(order), m = static_cast<Int>(other), k = static_cast<Int>(count),
            ld = static_cast<Int>(cols);
  const double one = 1, zero = 0;
  std::vector<double> gram(order * order), images(other * count);
  lapack().dsyrk("L", left ? "T" : "N", &n, &m, &one, a.data(), &ld, &zero, gram.data(), &n, 1, 1);
  const std::vector<double> vectors = largest_eigenvectors(gram, order, count);
  lapack().dgemm(left ? "N" : "T", "N", &m, &k, &n, &one, a.data(), &ld, vectors.data(), &n, &zero,
                 images.data(), &m, 1, 1);
  for (std::size_t j = 0; j < count; ++j) {
    double square = 0;
    for (std::size_t i = 0; i < other; ++i) square += images[j * other + i] * images[j * other + i];
    s[j] = std::sqrt(square);
  }
  if (!(s[0] * s[0] <= kWidestSquares * s[count - 1] * s[count - 1]) || s[0] == 0) return false;
  for (std::size_t j = 0; j < count; ++j) {
    for (std::size_t i = 0; i < rows; ++i)
      u[i * count + j] = left ? vectors[j * order + i] : images[j * other + i] / s[j];
    for (std::size_t i = 0; i < cols; ++i)
      vt[j * cols + i] = left ? images[j * other + i] / s[j] : vectors[j * order + i];
  }
  fix_signs(rows, cols, count, u, vt);
  return true;
}

void largest_of_one(std::size_t rows, std::size_t cols, std::size_t count, std::span<const double> a,
                    std::span<double> u, std::span<double> s, std::span<double> vt) {
  if (svd_by_gram(rows, cols, count, a, u, s, vt)) return;
  const std::size_t k = std::min(rows, cols);
  std::vector<double> whole_u(rows * k), whole_s(k), whole_vt(k * cols);
  svd_of_one(rows, cols, a, whole_u, whole_s, whole_vt);
  for (std::size_t i = 0; i < rows; ++i) std::copy_n(&whole_u[i * k], count, &u[i * count]);
  std::copy_n(whole_s.begin(), count, s.begin());
  std::copy_n(whole_vt.begin(), count * cols, vt.begin());
}

}  // namespace

bool has_lapack() {
  static const bool found = [] {
    try {
      lapack();
    } catch (const UserError&) {
      return false;
    }
    return true;
  }();
  return found;
}

void qr(const MatrixBatch& batch, std::span<const double> a, std::span<double> q, std::span<double> r,
        int threads) {
  check(batch, a);
  const std::size_t rows = batch.rows, cols = batch.cols;
  if (rows < cols) user_error("QR needs at least as many rows as columns, not {} x {}", rows, cols);
  lapack();
  for_each_matrix(batch, threads, [&](std::size_t i) {
    qr_of_one(rows, cols, a.subspan(i * rows * cols, rows * cols), q.subspan(i * rows * cols, rows * cols),
              r.subspan(i * cols * cols, cols * cols));
  });
}

void eigh(const MatrixBatch& batch, std::span<const double> a, std::span<double> w, std::span<double> v,
          int threads) {
  check(batch, a);
  const std::size_t n = batch.rows;
  if (n != batch.cols) user_error("eigenvectors need square matrices, not {} x {}", n, batch.cols);
  lapack();
  for_each_matrix(batch, threads, [&](std::size_t i) {
    eigh_of_one(n, a.subspan(i * n * n, n * n), w.subspan(i * n, n), v.subspan(i * n * n, n * n));
  });
}

void svd(const MatrixBatch& batch, std::span<const double> a, std::span<double> u, std::span<double> s,
         std::span<double> vt, int threads) {
  check(batch, a);
  const std::size_t rows = batch.rows, cols = batch.cols, k = std::min(rows, cols);
  lapack();
  for_each_matrix(batch, threads, [&](std::size_t i) {
    svd_of_one(rows, cols, a.subspan(i * rows * cols, rows * cols), u.subspan(i * rows * k, rows * k),
               s.subspan(i * k, k), vt.subspan(i * k * cols, k * cols));
  });
}

void svd_of_largest(const MatrixBatch& batch, std::size_t largest, std::span<const double> a,
                    std::span<double> u, std::span<double> s, std::span<double> vt, int threads) {
  check(batch, a);
  const std::size_t rows = batch.rows, cols = batch.cols;
  if (largest < 1 || largest > std::min(rows, cols))
    user_error("a matrix of {} x {} has no {} largest singular values", rows, cols, largest);
  lapack();
  for_each_matrix(batch, threads, [&](std::size_t i) {
    largest_of_one(rows, cols, largest, a.subspan(i * rows * cols, rows * cols),
                   u.subspan(i * rows * largest, rows * largest), s.subspan(i * largest, largest),
                   vt.subspan(i * largest * cols, largest * cols));
  });
}

void row_products(std::span<const float> a, std::span<const float> b, std::size_t k, std::span<float> c) {
  const Int m = static_cast<Int>(a.size() / k), n = static_cast<Int>(b.size() / k),
            width = static_cast<Int>(k);
  if (c.size() != a.size() / k * (b.size() / k))
    internal_error("{} places for the products of {} and {} rows", c.size(), m, n);
  const float one = 1, zero = 0;
  lapack().sgemm("T", "N", &n, &m, &width, &one, b.data(), &width, a.data(), &width, &zero, c.data(), &n, 1,
                 1);
}

void singular_values(const MatrixBatch& batch, std::span<const double> a, std::span<double> s, int threads) {
  check(batch, a);
  const std::size_t rows = batch.rows, cols = batch.cols, k = std::min(rows, cols);
  lapack();
  for_each_matrix(batch, threads, [&](std::size_t i) {
    svd_of_one(rows, cols, a.subspan(i * rows * cols, rows * cols), {}, s.subspan(i * k, k), {});
  });
}

}  // namespace rewire::runtime

// LAPACK is opened on first use: OpenBLAS starts a thread a core when it is loaded, which only a run that
// asks for a decomposition should pay for. Matrices are row-major here and column-major there, that is,
// transposed.
#include "runtime/linalg/lapack.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "ir/error.h"
#include "runtime/exec/thread_pool.h"

namespace rewire::runtime {
namespace {

constexpr const char* kLibrary = "liblapack.so.3";

using Int = std::int32_t;
using Length = std::size_t;  // of a Fortran character argument, passed behind the others
using Dgeqrf = void (*)(const Int* m, const Int* n, double* a, const Int* lda, double* tau, double* work,
                        const Int* lwork, Int* info);
using Dorgqr = void (*)(const Int* m, const Int* n, const Int* k, double* a, const Int* lda,
                        const double* tau, double* work, const Int* lwork, Int* info);
using Dgesdd = void (*)(const char* jobz, const Int* m, const Int* n, double* a, const Int* lda, double* s,
                        double* u, const Int* ldu, double* vt, const Int* ldvt, double* work,
                        const Int* lwork, Int* iwork, Int* info, Length);

struct Lapack {
  Dgeqrf dgeqrf = nullptr;
  Dorgqr dorgqr = nullptr;
  Dgesdd dgesdd = nullptr;
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) user_error("{} lacks {}: install libopenblas0, or another LAPACK", kLibrary, name);
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
    // A matrix a thread: OpenBLAS must not split one, which would round differently on other machines' cores.
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

/// body(i) for every matrix of the batch.
template <class Body>
void for_each_matrix(const MatrixBatch& batch, int threads, Body body) {
  const auto cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  ThreadPool pool(
      std::min(threads > 0 ? threads : cores, static_cast<int>(std::max<std::size_t>(batch.count, 1))));
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
  if (info != 0) throw RuntimeFailure(fmt::format("LAPACK's {} fails with info {}", name, info));
}

void qr_of_one(std::size_t rows, std::size_t cols, std::span<const double> a, std::span<double> q,
               std::span<double> r) {
  const Int m = static_cast<Int>(rows), n = static_cast<Int>(cols), all = -1;
  std::vector<double> columns(rows * cols), tau(cols), work(1);
  transpose(a, columns, rows, cols);
  Int info = 0;
  lapack().dgeqrf(&m, &n, columns.data(), &m, tau.data(), work.data(), &all,
                  &info);  // asks for the work's size
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

/// The columns of u and the rows of vt come in pairs that are free in their sign.
void fix_signs(std::size_t rows, std::size_t cols, std::span<double> u, std::span<double> vt) {
  const std::size_t k = std::min(rows, cols);
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

/// The transpose of a has the decomposition v diag(s) ut, and LAPACK's column-major v is vt here. Without
/// places for u and vt: s alone.
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
  run(&all);  // asks for the work's size
  const Int size = static_cast<Int>(work[0]);
  work.resize(static_cast<std::size_t>(size));
  run(&size);
  if (!u.empty()) fix_signs(rows, cols, u, vt);
}

}  // namespace

void qr(const MatrixBatch& batch, std::span<const double> a, std::span<double> q, std::span<double> r,
        int threads) {
  check(batch, a);
  const std::size_t rows = batch.rows, cols = batch.cols;
  if (rows < cols) user_error("QR wants no more columns than rows, not {} x {}", rows, cols);
  lapack();
  for_each_matrix(batch, threads, [&](std::size_t i) {
    qr_of_one(rows, cols, a.subspan(i * rows * cols, rows * cols), q.subspan(i * rows * cols, rows * cols),
              r.subspan(i * cols * cols, cols * cols));
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

void singular_values(const MatrixBatch& batch, std::span<const double> a, std::span<double> s, int threads) {
  check(batch, a);
  const std::size_t rows = batch.rows, cols = batch.cols, k = std::min(rows, cols);
  lapack();
  for_each_matrix(batch, threads, [&](std::size_t i) {
    svd_of_one(rows, cols, a.subspan(i * rows * cols, rows * cols), {}, s.subspan(i * k, k), {});
  });
}

}  // namespace rewire::runtime

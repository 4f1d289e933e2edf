// Matrix multiplication on an NVIDIA device by cuBLASLt, which is opened when it is first asked for
// (codegen/cuda/shared_library.h; $REWIRE_CUBLASLT names another).
//
// cuBLASLt's matrices stand column after column, ours row after row: c = a b is computed as c' = b' a', of
// the same memory. Its bias epilogue then adds along our rows' elements, as wanted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/program.h"
#include "ir/types.h"

namespace rewire::codegen {

/// c [batch, m, n] = a [batch, m, k] b [batch, k, n] (+ bias [n]) (+ c).
struct DeviceGemmShape {
  /// Strides in elements; one of row and column is 1, c's column. A batch stride of 0 repeats (a and b).
  struct Matrix {
    std::int64_t batch = 0, row = 0, column = 1;
    std::int64_t alignment = 16;  // bytes, a power of two: of the matrix of every batch
    auto operator<=>(const Matrix&) const = default;
  };
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  Matrix a, b, c;
  ir::DType dtype = ir::DType::f32;   // of a and b: f64, f32, bf16, f16
  ir::DType result = ir::DType::f32;  // of c and the bias: f32 may stand behind 16-bit operands
  bool tf32 = false;  // f32 operands may be rounded to 10 bits of mantissa; sums are f32 all the same
  bool bias = false;
  bool accumulate = false;
  auto operator<=>(const DeviceGemmShape&) const = default;
};
/// "gemm 3200x192x768 + bias", "gemm 12x50x50x64": batch, m, n, k.
std::string short_name(const DeviceGemmShape& shape);

/// One product of a launch: what it reads and writes, in bytes from the beginning of its view's buffer.
struct DeviceGemmCall {
  DeviceGemmShape shape;
  std::int64_t a = 0, b = 0, c = 0, bias = 0;
};
/// The innermost batch axis of a launch as cuBLASLt's own, a call for each index of the axes before it. All
/// calls have one shape. Buffers are aligned to 64 bytes, a bias to
/// 16.
std::vector<DeviceGemmCall> device_gemm_calls(const Program& program, const GemmLaunch& launch, bool tf32);

/// Why cuBLASLt cannot be used, in one line; nullopt: it can be opened.
std::optional<std::string> cublas_lt_missing();

/// A handle, for the context that is current on the calling thread. RuntimeFailure of every class here names
/// the call that failed, what it was for and cuBLASLt's words; UserError if the library is missing.
class CublasLt {
 public:
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  /// "13.0.2"
  static std::string version();

 private:
  friend class DeviceGemm;
  void* handle_ = nullptr;
};

/// A product with its algorithm chosen.
class DeviceGemm {
 public:
  /// The best `algorithms` (at least 1) that cuBLASLt's heuristic knows for the shape, in its order; the
  /// first is taken. Sums that are split over blocks are put together in f32, in fixed order.
  DeviceGemm(const CublasLt& library, const DeviceGemmShape& shape, std::int64_t workspace_limit,
             int algorithms = 1);
  ~DeviceGemm();
  DeviceGemm(DeviceGemm&&) noexcept;
  DeviceGemm& operator=(DeviceGemm&&) noexcept;

  /// What the candidates are, readable and the same whenever this version of cuBLASLt is asked:
  /// "algorithm 66, tile 18, stages 35, split 1".
  const std::vector<std::string>& algorithms() const;
  void choose(int algorithm);
  /// Of the algorithm taken. The memory must be aligned to 256 bytes.
  std::int64_t workspace_bytes() const;

  /// Puts the product on a stream (a CUstream), which may be capturing. Device pointers.
  void run(const void* a, const void* b, void* c, const void* bias, void* workspace, void* stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::codegen

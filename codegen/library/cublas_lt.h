// Matrix multiplication on an NVIDIA device by cuBLASLt, which is opened at its first use
// (codegen/cuda/shared_library.h; $REWIRE_CUBLASLT names another file).
//
// cuBLASLt's matrices are column-major, ours row-major: c = a b is computed as c' = b' a' in the same
// memory. So its bias epilogue adds along our rows' elements, as wanted, and the gradient of the bias, which
// it sums along its rows, has one sum for each of our columns. Its GELU is by tanh. Its GELU epilogues write
// or read another matrix besides the result (AUX). That matrix has the result's type, a leading dimension
// that is a multiple of 8 elements, and an address that is a multiple of 16 bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/library/device_gemm.h"
#include "ir/error.h"

namespace rewire::codegen {

/// Returns why cuBLASLt cannot be used, in one line; nullopt: it can be opened.
std::optional<std::string> cublas_lt_missing();

/// A handle, for the context that is current on the calling thread. All classes here throw RuntimeFailure
/// that names the failed call, its purpose and cuBLASLt's words, and UserError if the library is missing.
class CublasLt {
 public:
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  /// Returns "13.0.2".
  static std::string version();

 private:
  friend class DeviceGemm;
  void* handle_ = nullptr;
};

/// cuBLASLt cannot multiply such matrices: its heuristic has no algorithm, whatever is asked of it.
class UnsupportedProduct : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// Returns whether `text` has the form of DeviceGemm::algorithms().
bool is_algorithm_text(std::string_view text);

/// The addresses of a product's matrices on the device; nullptr: it has none. The epilogue decides which are
/// written.
struct GemmMemory {
  const void *a = nullptr, *b = nullptr;
  void *c = nullptr, *bias = nullptr, *pre = nullptr;
};

/// A product with a chosen algorithm.
class DeviceGemm {
 public:
  /// Takes the best `algorithms` (at least 1) that cuBLASLt's heuristic knows for the shape, in its order,
  /// and chooses the first. Sums that are split over blocks are combined in fixed order, in f32 if possible.
  /// If the heuristic has no answer, it is asked again with eight times the workspace and any fixed order,
  /// then for one call per product of the batch. Throws UnsupportedProduct with cuBLASLt's words if all is
  /// refused, or with what an epilogue lacks.
  DeviceGemm(const CublasLt& library, const DeviceGemmShape& shape, std::int64_t workspace_limit,
             int algorithms = 1);
  ~DeviceGemm();
  DeviceGemm(DeviceGemm&&) noexcept;
  DeviceGemm& operator=(DeviceGemm&&) noexcept;

  /// Returns the candidates: "cuBLASLt 13.0.2 algorithm 66, tile 18, stages 35, split 1, swizzle 0, option
  /// 0: 42-1200-0-0-0-0-0-0", a readable part, then the 64 bytes of cublasLtMatmulAlgo_t as hexadecimal
  /// words. Those bytes are the whole algorithm, and are documented to be valid for the same version of the
  /// library. Its attributes are not enough: a kernel may have settings without an attribute.
  const std::vector<std::string>& algorithms() const;
  void choose(int algorithm);
  /// Chooses an algorithm of algorithms(), perhaps of another process. Returns false, and changes nothing,
  /// if it is of another version of cuBLASLt, or cuBLASLt refuses it for this product on this device.
  bool choose(std::string_view algorithm);
  const std::string& chosen() const;
  /// Returns the workspace of the chosen algorithm. The memory must be aligned to 256 bytes.
  std::int64_t workspace_bytes() const;
  /// Returns how often run() calls cuBLASLt: 1, or once per product of the batch.
  std::int64_t calls() const;

  /// Puts the product on a stream (a CUstream), which may be capturing. All pointers are on the device.
  void run(const GemmMemory& memory, void* workspace, void* stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::codegen

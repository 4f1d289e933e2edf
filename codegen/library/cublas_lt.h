// Matrix multiplication on an NVIDIA device by cuBLASLt, which is opened when it is first asked for
// (codegen/cuda/shared_library.h; $REWIRE_CUBLASLT names another).
//
// cuBLASLt's matrices stand column after column, ours row after row: c = a b is computed as c' = b' a', of
// the same memory. Its bias epilogue then adds along our rows' elements, as wanted, and
// the gradient of the bias, which it sums along its rows, has one sum for each of our columns. Its GELU is
// the one by tanh. The matrix that its GELU epilogues write or read beside the result (AUX) has the result's
// type, a leading dimension that is a multiple of 8 elements, and lies at a multiple of 16 bytes.
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

/// cuBLASLt multiplies no such matrices: its heuristic has no algorithm, whatever is asked of it.
class UnsupportedProduct : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// Whether `text` has the form of DeviceGemm::algorithms().
bool is_algorithm_text(std::string_view text);

/// Where a product's matrices lie on the device; nullptr: it has none. Epilogues say what is written.
struct GemmMemory {
  const void *a = nullptr, *b = nullptr;
  void *c = nullptr, *bias = nullptr, *pre = nullptr;
};

/// A product with its algorithm chosen.
class DeviceGemm {
 public:
  /// The best `algorithms` (at least 1) that cuBLASLt's heuristic knows for the shape, in its order; the
  /// first is taken. Sums that are split over blocks are put together in fixed order, in f32 if it can be.
  /// Where the heuristic has no answer it is asked again with eight times the workspace and any fixed order,
  /// then for a call a product of the batch. UnsupportedProduct with cuBLASLt's words if all that is refused,
  /// or with what is wanting for an epilogue.
  DeviceGemm(const CublasLt& library, const DeviceGemmShape& shape, std::int64_t workspace_limit,
             int algorithms = 1);
  ~DeviceGemm();
  DeviceGemm(DeviceGemm&&) noexcept;
  DeviceGemm& operator=(DeviceGemm&&) noexcept;

  /// What the candidates are: "cuBLASLt 13.0.2 algorithm 66, tile 18, stages 35, split 1, swizzle 0, option
  /// 0: 42-1200-0-0-0-0-0-0", readable, then the 64 bytes of cublasLtMatmulAlgo_t as hexadecimal words. Those
  /// bytes are all of an algorithm, and documented to be good for the same version of the library; its
  /// attributes are not (a kernel may have settings that have none).
  const std::vector<std::string>& algorithms() const;
  void choose(int algorithm);
  /// An algorithm that algorithms() gave, perhaps in another process. False, and nothing changes, if it is of
  /// another version of cuBLASLt, or cuBLASLt refuses it for this product on this device.
  bool choose(std::string_view algorithm);
  const std::string& chosen() const;
  /// Of the algorithm taken. The memory must be aligned to 256 bytes.
  std::int64_t workspace_bytes() const;
  /// How often run() calls cuBLASLt: 1, or once a product of the batch.
  std::int64_t calls() const;

  /// Puts the product on a stream (a CUstream), which may be capturing. Device pointers.
  void run(const GemmMemory& memory, void* workspace, void* stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::codegen

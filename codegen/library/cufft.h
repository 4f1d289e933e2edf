// Fourier transforms of real rows on an NVIDIA device by cuFFT, which is opened at its first use
// (codegen/cuda/shared_library.h; $REWIRE_CUFFT names another file). Rows are dense. A spectrum has the real
// and the imaginary part of each bin side by side, and the inverse is not divided by its length, as in the
// ops rfft_pairs and irfft_pairs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ir/error.h"
#include "ir/ops/fourier.h"

namespace rewire::codegen {

/// Returns why cuFFT cannot be used, in one line; nullopt: it can be opened.
std::optional<std::string> cufft_missing();
/// Returns "12.0.0". Throws UserError if cuFFT is missing.
std::string cufft_version();

/// Returns "rfft rows=4096 length=96 f32".
std::string full_name(const ir::FourierRows& rows);

/// cuFFT has no such transform.
class UnsupportedTransform : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// A plan for the context that is current on the calling thread.
class DeviceFft {
 public:
  /// Makes the plan of at least one row. Throws UnsupportedTransform with cuFFT's word if it refuses, and
  /// for dtypes other than f32 and f64. Throws RuntimeFailure that names any other failed call, and
  /// UserError if cuFFT is missing.
  explicit DeviceFft(const ir::FourierRows& rows);
  ~DeviceFft();
  DeviceFft(const DeviceFft&) = delete;
  DeviceFft& operator=(const DeviceFft&) = delete;

  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Puts the transform on a stream (a CUstream), which may be capturing. All pointers are on the device.
  /// The inverse may overwrite its input.
  void run(void* input, void* output, void* workspace, void* stream) const;

 private:
  ir::FourierRows rows_;
  int plan_ = -1;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace rewire::codegen

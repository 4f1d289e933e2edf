// Fourier transforms of real rows on an NVIDIA device by cuFFT, which is opened when it is first asked for
// (codegen/cuda/shared_library.h; $REWIRE_CUFFT names another). Rows are dense; a spectrum has the real and
// the imaginary part of each bin side by side, and the inverse is not divided by its length: the ops
// rfft_pairs and irfft_pairs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ir/error.h"
#include "ir/ops/fourier.h"

namespace rewire::codegen {

/// Why cuFFT cannot be used, in one line; nullopt: it can be opened.
std::optional<std::string> cufft_missing();
/// "12.0.0"; UserError if it is missing.
std::string cufft_version();

/// "rfft rows=4096 length=96 f32"
std::string full_name(const ir::FourierRows& rows);

/// cuFFT has no such transform.
class UnsupportedTransform : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// A plan, in the context that is current on the calling thread.
class DeviceFft {
 public:
  /// One row at least. UnsupportedTransform with cuFFT's word if it refuses, also for what is neither f32 nor
  /// f64; RuntimeFailure that names any other call that fails; UserError if cuFFT is missing.
  explicit DeviceFft(const ir::FourierRows& rows);
  ~DeviceFft();
  DeviceFft(const DeviceFft&) = delete;
  DeviceFft& operator=(const DeviceFft&) = delete;

  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Puts the transform on a stream (a CUstream), which may be capturing. Device pointers. The inverse may
  /// overwrite its input.
  void run(void* input, void* output, void* workspace, void* stream) const;

 private:
  ir::FourierRows rows_;
  int plan_ = -1;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace rewire::codegen

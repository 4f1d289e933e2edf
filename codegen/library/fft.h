// Fourier transforms of real rows on the CPU by FFTW, single precision, on the calling thread. Plans are
// estimated, never timed, and do not depend on where their arrays lie: the same rows give the same bits on
// every run.
#pragma once

#include <cstdint>
#include <memory>

namespace rewire::codegen {

/// `rows` transforms at a time. Forward: [rows, length] -> [rows, 2, length / 2 + 1], real parts, then
/// imaginary parts. Inverse: the other way, divided by length; imaginary parts that a real row has none of
/// are ignored.
struct FftShape {
  std::int64_t rows = 0, length = 0;
  bool inverse = false;
  auto operator<=>(const FftShape&) const = default;
};

class Fft {
 public:
  explicit Fft(const FftShape& shape);
  ~Fft();
  Fft(const Fft&) = delete;
  Fft& operator=(const Fft&) = delete;
  /// Callable from several threads at once. The input is left as it is.
  void run(const float* input, float* output) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::codegen

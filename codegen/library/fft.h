// Fourier transforms of real rows on the CPU by FFTW, single precision, on the calling thread. Plans are
// estimated, never timed, and do not depend on the addresses of their arrays: equal rows give equal bits on
// every run.
#pragma once

#include <cstdint>
#include <memory>

namespace rewire::codegen {

/// A shape of `rows` transforms at a time. Forward: [rows, length] -> [rows, 2, length / 2 + 1], real parts,
/// then imaginary parts. Inverse: the other way, divided by length; it ignores imaginary parts that a real
/// row cannot have.
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
  /// Computes the transforms. Callable from several threads at once. The input is not changed.
  void run(const float* input, float* output) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::codegen

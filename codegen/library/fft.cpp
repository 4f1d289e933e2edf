// Transforms by FFTW, in its split format: real and imaginary parts are separate arrays. Only making and
// destroying plans takes a lock, since FFTW allows one of these at a time. Running a plan needs no lock.
#include "codegen/library/fft.h"

#include <fftw3.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "codegen/library_call.h"
#include "ir/error.h"

namespace rewire::codegen {
namespace {

std::mutex& planner() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

struct Fft::Impl {
  FftShape shape;
  std::int64_t bins = 0;
  fftwf_plan plan = nullptr;
};

Fft::Fft(const FftShape& shape) : impl_(std::make_unique<Impl>()) {
  impl_->shape = shape;
  impl_->bins = shape.length / 2 + 1;
  const auto bins = static_cast<int>(impl_->bins), length = static_cast<int>(shape.length);
  std::vector<float> real(static_cast<std::size_t>(shape.rows * length));
  std::vector<float> spectrum(static_cast<std::size_t>(shape.rows * 2 * bins));
  const fftwf_iodim transform{length, 1, 1};
  const fftwf_iodim rows = shape.inverse ? fftwf_iodim{static_cast<int>(shape.rows), 2 * bins, length}
                                         : fftwf_iodim{static_cast<int>(shape.rows), length, 2 * bins};
  constexpr unsigned kFlags = FFTW_ESTIMATE | FFTW_UNALIGNED | FFTW_PRESERVE_INPUT;
  const std::lock_guard lock(planner());
  const LibraryCall call(kCompilerHeadroom);
  impl_->plan = shape.inverse
                    ? fftwf_plan_guru_split_dft_c2r(1, &transform, 1, &rows, spectrum.data(),
                                                    spectrum.data() + bins, real.data(), kFlags)
                    : fftwf_plan_guru_split_dft_r2c(1, &transform, 1, &rows, real.data(), spectrum.data(),
                                                    spectrum.data() + bins, kFlags);
  if (impl_->plan == nullptr) internal_error("FFTW has no plan for {} rows of {}", shape.rows, shape.length);
}

Fft::~Fft() {
  const std::lock_guard lock(planner());
  fftwf_destroy_plan(impl_->plan);
}

void Fft::run(const float* input, float* output) const {
  const LibraryCall call(0);               // some plans take memory while they run
  auto* from = const_cast<float*>(input);  // FFTW's interface; the plan preserves it
  if (!impl_->shape.inverse) {
    fftwf_execute_split_dft_r2c(impl_->plan, from, output, output + impl_->bins);
    return;
  }
  fftwf_execute_split_dft_c2r(impl_->plan, from, from + impl_->bins, output);
  const float scale = 1.0F / static_cast<float>(impl_->shape.length);
  for (std::int64_t i = 0; i < impl_->shape.rows * impl_->shape.length; ++i) output[i] *= scale;
}

}  // namespace rewire::codegen

/// Replaces FFTW's function of this name, which its planner calls to end the process if malloc fails. The
/// planner finds this one first, since the program's symbols come before a library's.
extern "C" __attribute__((visibility("default"))) void fftwf_assertion_failed(const char* text, int line,
                                                                              const char* file) {
  const std::new_handler exhausted = std::get_new_handler();
  if (rewire::codegen::LibraryCall::under_way() && exhausted != nullptr) exhausted();
  std::fprintf(stderr, "fftw: %s:%d: assertion failed: %s\n", file, line, text);
  std::abort();
}

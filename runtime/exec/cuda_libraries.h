// The libraries of a GPU's engine, opened when the first program asks: products by cuBLASLt, one object a
// shape, with the algorithm that was chosen for it; Fourier transforms by cuFFT, one plan for all rows that
// are transformed alike.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "codegen/library/cublas_lt.h"
#include "codegen/library/cufft.h"
#include "codegen/library/fit_gemms.h"
#include "runtime/exec/choice_record.h"

namespace rewire::runtime {

/// What NVIDIA recommends for its newer devices.
inline constexpr std::int64_t kGemmWorkspace = 32 << 20;

class CudaLibraries {
 public:
  /// `choices`: the algorithms that were chosen (gemm_choices.h), and how transforms are computed
  /// (fourier_choices.h). A product that has none there, or one that cuBLASLt refuses here, takes the first
  /// of the heuristic. `tf32`: products of f32 may be of TF32.
  explicit CudaLibraries(bool tf32, ChoiceRecord choices = {});

  bool tf32() const { return tf32_; }

  /// Whether cuBLASLt takes this product, and how.
  codegen::GemmAnswer answer(const codegen::DeviceGemmShape& shape);
  /// RuntimeFailure if it does not; `location`: of the op, for the message.
  const codegen::DeviceGemm& gemm(const codegen::DeviceGemmShape& shape, const std::string& location);
  /// The first `algorithms` that the heuristic has for a product that is taken.
  codegen::DeviceGemm candidates(const codegen::DeviceGemmShape& shape, int algorithms);

  /// How these rows are transformed: as was chosen, but for what cuFFT does not do here.
  ir::FourierWay fourier(const ir::FourierRows& rows);
  /// Their plan; nullptr, with a line in the log the first time in a process, where cuFFT is missing or has
  /// no such transform.
  const codegen::DeviceFft* fft(const ir::FourierRows& rows);

 private:
  const codegen::CublasLt& blas();
  using Known = std::variant<codegen::DeviceGemm, std::string>;  // or why there is none
  const Known& known(const codegen::DeviceGemmShape& shape);

  const bool tf32_;
  const ChoiceRecord choices_;
  std::optional<codegen::CublasLt> blas_;
  std::map<codegen::DeviceGemmShape, Known> gemms_;
  std::map<ir::FourierRows, std::unique_ptr<codegen::DeviceFft>> ffts_;  // null: there is none
};

}  // namespace rewire::runtime

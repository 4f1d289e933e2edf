// The libraries of a GPU's engine, opened when the first program asks: products by cuBLASLt, one object a
// shape, with the algorithm that was chosen for it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>

#include "codegen/library/cublas_lt.h"
#include "codegen/library/fit_gemms.h"
#include "runtime/exec/choice_record.h"

namespace rewire::runtime {

/// What NVIDIA recommends for its newer devices.
inline constexpr std::int64_t kGemmWorkspace = 32 << 20;

class CudaLibraries {
 public:
  /// `choices`: the algorithms that were chosen (gemm_choices.h). A product that has none there, or one that
  /// cuBLASLt refuses here, takes the first of the heuristic. `tf32`: products of f32 may be of TF32.
  explicit CudaLibraries(bool tf32, ChoiceRecord choices = {});

  bool tf32() const { return tf32_; }

  /// Whether cuBLASLt takes this product, and how.
  codegen::GemmAnswer answer(const codegen::DeviceGemmShape& shape);
  /// RuntimeFailure if it does not; `location`: of the op, for the message.
  const codegen::DeviceGemm& gemm(const codegen::DeviceGemmShape& shape, const std::string& location);
  /// The first `algorithms` that the heuristic has for a product that is taken.
  codegen::DeviceGemm candidates(const codegen::DeviceGemmShape& shape, int algorithms);

 private:
  const codegen::CublasLt& blas();
  using Known = std::variant<codegen::DeviceGemm, std::string>;  // or why there is none
  const Known& known(const codegen::DeviceGemmShape& shape);

  const bool tf32_;
  const ChoiceRecord choices_;
  std::optional<codegen::CublasLt> blas_;
  std::map<codegen::DeviceGemmShape, Known> gemms_;
};

}  // namespace rewire::runtime

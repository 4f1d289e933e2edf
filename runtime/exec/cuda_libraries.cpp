#include "runtime/exec/cuda_libraries.h"

#include <utility>

#include "ir/error.h"
#include "runtime/log.h"

namespace rewire::runtime {

using codegen::DeviceGemm;
using codegen::DeviceGemmShape;
using codegen::GemmAnswer;

CudaLibraries::CudaLibraries(bool tf32, ChoiceRecord choices) : tf32_(tf32), choices_(std::move(choices)) {}

const codegen::CublasLt& CudaLibraries::blas() {
  return blas_ ? *blas_ : blas_.emplace();
}

DeviceGemm CudaLibraries::candidates(const DeviceGemmShape& shape, int algorithms) {
  return {blas(), shape, kGemmWorkspace, algorithms};
}

const CudaLibraries::Known& CudaLibraries::known(const DeviceGemmShape& shape) {
  if (const auto it = gemms_.find(shape); it != gemms_.end()) return it->second;
  try {
    DeviceGemm gemm = candidates(shape, 1);
    const MadeChoice* choice = choices_.find(codegen::full_name(shape));
    if (choice != nullptr && !gemm.choose(choice->taken))
      write_log(LogLevel::warning,
                fmt::format("'{}', chosen for '{}', is refused here: cuBLASLt's first is taken",
                            choice->taken, choice->key));
    return gemms_.emplace(shape, std::move(gemm)).first->second;
  } catch (const codegen::UnsupportedProduct& refusal) {
    return gemms_.emplace(shape, std::string(refusal.what())).first->second;
  }
}

GemmAnswer CudaLibraries::answer(const DeviceGemmShape& shape) {
  const auto* gemm = std::get_if<DeviceGemm>(&known(shape));
  if (gemm == nullptr) return GemmAnswer::none;
  return gemm->calls() == 1 ? GemmAnswer::one_call : GemmAnswer::call_a_product;
}

const DeviceGemm& CudaLibraries::gemm(const DeviceGemmShape& shape, const std::string& location) {
  const Known& found = known(shape);
  if (const auto* gemm = std::get_if<DeviceGemm>(&found)) return *gemm;
  const std::string& refusal = std::get<std::string>(found);
  throw RuntimeFailure(location.empty() ? refusal : fmt::format("{}: {}", location, refusal));
}

}  // namespace rewire::runtime

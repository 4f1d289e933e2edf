#include "runtime/exec/cuda/libraries.h"

#include <utility>

#include "codegen/cost.h"
#include "ir/error.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/log.h"
#include "runtime/exec/cuda/tune/fourier_choices.h"

namespace rewire::runtime {

using codegen::CudnnAttention;
using codegen::CudnnConvolution;
using codegen::DeviceAttentionShape;
using codegen::DeviceConvolution;
using codegen::DeviceGemm;
using codegen::DeviceGemmShape;
using codegen::GemmAnswer;

CudaLibraries::CudaLibraries(bool tf32, ChoiceRecord choices, int device)
    : tf32_(tf32), device_(device), choices_(std::move(choices)) {}

const codegen::CublasLt& CudaLibraries::blas() {
  return blas_ ? *blas_ : blas_.emplace();
}

const codegen::Cudnn& CudaLibraries::dnn() {
  return dnn_ ? *dnn_ : dnn_.emplace();
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
                fmt::format("'{}', chosen for '{}', is refused here: cuBLASLt's first algorithm is used",
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

bool CudaLibraries::computes(const codegen::ProductEpilogue& epilogue) const {
  const MadeChoice* choice = choices_.find(codegen::epilogue_key(epilogue, tf32_));
  return choice == nullptr || choice->taken != kOwnKernels;
}

ir::FourierWay CudaLibraries::fourier(const ir::FourierRows& rows) {
  const ir::FourierWay way = fourier_way(choices_, rows);
  if (way != ir::FourierWay::pairs || fft(rows) != nullptr) return way;
  return ir::has_fourier_product(rows) ? ir::FourierWay::product : ir::FourierWay::op;
}

const codegen::DeviceFft* CudaLibraries::fft(const ir::FourierRows& rows) {
  if (const auto it = ffts_.find(rows); it != ffts_.end()) return it->second.get();
  const auto none = [&](const std::string& why) {
    write_log_once(LogLevel::warning, "cuFFT",
                   fmt::format("{}; without it Fourier transforms of up to {} points are matrix products, "
                               "and the host computes longer ones",
                               why, ir::kLongestFourierProduct));
    return ffts_.emplace(rows, nullptr).first->second.get();
  };
  if (const std::optional<std::string> missing = codegen::cufft_missing()) return none(*missing);
  try {
    return ffts_.emplace(rows, std::make_unique<codegen::DeviceFft>(rows)).first->second.get();
  } catch (const codegen::UnsupportedTransform& refusal) {
    return none(refusal.what());
  }
}

CudnnAttention CudaLibraries::engines(const DeviceAttentionShape& shape) {
  return {dnn(), cuda::device_facts(device_).arch, shape, kAttentionWorkspace};
}

std::optional<CudnnAttention> CudaLibraries::chosen_engine(const DeviceAttentionShape& shape) {
  const MadeChoice* choice = choices_.find(codegen::full_name(shape));
  if (choice == nullptr || choice->taken == kOwnKernels) return std::nullopt;
  std::string why = "cuDNN has no such engine here";
  try {
    CudnnAttention attention = engines(shape);
    if (attention.choose(choice->taken)) return attention;
  } catch (const UserError& missing) {
    why = missing.what();
  } catch (const RuntimeFailure& failure) {
    why = failure.what();
  }
  write_log(LogLevel::warning,
            fmt::format("'{}', chosen for '{}', is not available, our kernels are used: {}", choice->taken,
                        choice->key, why));
  return std::nullopt;
}

const CudnnAttention* CudaLibraries::attention(const DeviceAttentionShape& shape) {
  auto known = attentions_.find(shape);
  if (known == attentions_.end()) known = attentions_.emplace(shape, chosen_engine(shape)).first;
  return known->second ? &*known->second : nullptr;
}

CudnnConvolution CudaLibraries::engines(const DeviceConvolution& shape, std::string_view engine) {
  return {dnn(), shape, kConvolutionWorkspace, engine};
}

CudaLibraries::Convolution CudaLibraries::plan_of(const DeviceConvolution& shape) {
  const MadeChoice* choice = choices_.find(codegen::full_name(shape));
  const std::string_view wanted = choice == nullptr ? std::string_view() : choice->taken;
  try {
    CudnnConvolution convolution = engines(shape, wanted);
    if (!wanted.empty() && convolution.chosen() != wanted)
      write_log(LogLevel::warning, fmt::format("'{}', chosen for '{}', is not available here, '{}' is used",
                                               wanted, choice->key, convolution.chosen()));
    return convolution;
  } catch (const UserError& missing) {
    return missing.what();
  } catch (const RuntimeFailure& failure) {
    return failure.what();
  }
}

const CudaLibraries::Convolution& CudaLibraries::convolution(const DeviceConvolution& shape) {
  const auto known = convolutions_.find(shape);
  return known != convolutions_.end() ? known->second
                                      : convolutions_.emplace(shape, plan_of(shape)).first->second;
}

}  // namespace rewire::runtime

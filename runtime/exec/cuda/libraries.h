// The libraries of a GPU's engine, opened when the first program asks: products by cuBLASLt, one object a
// shape, with the algorithm that was chosen for it; Fourier transforms by cuFFT, one plan for all rows that
// are transformed alike; attention by cuDNN, where that was chosen; convolutions by cuDNN.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "codegen/library/cublas_lt.h"
#include "codegen/library/cudnn_attention.h"
#include "codegen/library/cudnn_convolution.h"
#include "codegen/library/cufft.h"
#include "codegen/library/fit_gemms.h"
#include "runtime/exec/tune/choice_record.h"

namespace rewire::runtime {

/// What NVIDIA recommends for its newer devices.
inline constexpr std::int64_t kGemmWorkspace = 32 << 20;
/// Most that cuDNN's attention may take: what a gradient keeps for each query and key.
inline constexpr std::int64_t kAttentionWorkspace = 512 << 20;
/// Most that its convolutions may take: what many engines of f32 transpose maps in.
inline constexpr std::int64_t kConvolutionWorkspace = 512 << 20;

class CudaLibraries {
 public:
  /// `choices`: the algorithms that were chosen (gemm_choices.h, convolution_choices.h), and how transforms are
  /// computed (fourier_choices.h). A product or convolution that has none there, or one that its library refuses
  /// here, takes the first of the heuristic. Attention that has none is our own kernels'. `tf32`: products of
  /// f32 may be of TF32. `device`: its number.
  explicit CudaLibraries(bool tf32, ChoiceRecord choices = {}, int device = 0);

  bool tf32() const { return tf32_; }

  /// Whether cuBLASLt takes this product, and how.
  codegen::GemmAnswer answer(const codegen::DeviceGemmShape& shape);
  /// RuntimeFailure if it does not; `location`: of the op, for the message.
  const codegen::DeviceGemm& gemm(const codegen::DeviceGemmShape& shape, const std::string& location);
  /// The first `algorithms` that the heuristic has for a product that is taken.
  codegen::DeviceGemm candidates(const codegen::DeviceGemmShape& shape, int algorithms);

  /// Whether a product's epilogue was chosen to be cuBLASLt's (epilogue_choices.h); without a choice it is,
  /// where answer() has one call for it.
  bool computes(const codegen::ProductEpilogue& epilogue) const;

  /// How these rows are transformed: as was chosen, but for what cuFFT does not do here.
  ir::FourierWay fourier(const ir::FourierRows& rows);
  /// Their plan; nullptr, with a line in the log the first time in a process, where cuFFT is missing or has
  /// no such transform.
  const codegen::DeviceFft* fft(const ir::FourierRows& rows);
  /// cuDNN's plan, if an engine of its was chosen and is taken here; null: our kernels.
  const codegen::CudnnAttention* attention(const codegen::DeviceAttentionShape& shape);
  /// The engines that cuDNN has for it. UserError if the library is missing, UnsupportedGraph if it has none.
  codegen::CudnnAttention engines(const codegen::DeviceAttentionShape& shape);

  /// cuDNN's plan of the engine that was chosen, or of its first; or why cuDNN has none.
  using Convolution = std::variant<codegen::CudnnConvolution, std::string>;
  const Convolution& convolution(const codegen::DeviceConvolution& shape);
  /// The engines that cuDNN has for it, with the plan of this one or of the first. UserError if the library is
  /// missing, UnsupportedGraph if it has none.
  codegen::CudnnConvolution engines(const codegen::DeviceConvolution& shape, std::string_view engine = {});

 private:
  const codegen::CublasLt& blas();
  const codegen::Cudnn& dnn();
  Convolution plan_of(const codegen::DeviceConvolution& shape);
  std::optional<codegen::CudnnAttention> chosen_engine(const codegen::DeviceAttentionShape& shape);
  using Known = std::variant<codegen::DeviceGemm, std::string>;  // or why there is none
  const Known& known(const codegen::DeviceGemmShape& shape);

  const bool tf32_;
  const int device_;
  const ChoiceRecord choices_;
  std::optional<codegen::CublasLt> blas_;
  std::optional<codegen::Cudnn> dnn_;
  std::map<codegen::DeviceGemmShape, Known> gemms_;
  std::map<ir::FourierRows, std::unique_ptr<codegen::DeviceFft>> ffts_;  // null: there is none
  std::map<codegen::DeviceAttentionShape, std::optional<codegen::CudnnAttention>> attentions_;
  std::map<codegen::DeviceConvolution, Convolution> convolutions_;
};

}  // namespace rewire::runtime

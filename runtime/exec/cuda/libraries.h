// The libraries of a GPU's engine, opened on first use. cuBLASLt computes products, one object per shape
// with its chosen algorithm; cuFFT Fourier transforms, one plan for all rows that are transformed alike;
// cuDNN convolutions, and attention if that was chosen.
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

/// The size that NVIDIA recommends for its newer devices.
inline constexpr std::int64_t kGemmWorkspace = 32 << 20;
/// The most that cuDNN's attention may take: a gradient keeps some for each query and key.
inline constexpr std::int64_t kAttentionWorkspace = 512 << 20;
/// The most that cuDNN's convolutions may take: many engines of f32 transpose maps in it.
inline constexpr std::int64_t kConvolutionWorkspace = 512 << 20;

class CudaLibraries {
 public:
  /// `choices` has the chosen algorithms (gemm_choices.h, convolution_choices.h) and ways to compute
  /// transforms (fourier_choices.h). A product or convolution without one, or with one that its library
  /// refuses here, takes the first of the heuristic. Attention without one is our own kernels'. `tf32`:
  /// products of f32 may use TF32. `device`: its number.
  explicit CudaLibraries(bool tf32, ChoiceRecord choices = {}, int device = 0);

  bool tf32() const { return tf32_; }
  const ChoiceRecord& choices() const { return choices_; }

  /// Returns whether cuBLASLt takes this product, and how.
  codegen::GemmAnswer answer(const codegen::DeviceGemmShape& shape);
  /// Returns cuBLASLt's object for a product. Throws RuntimeFailure if it has none; `location` of the op is
  /// for the message.
  const codegen::DeviceGemm& gemm(const codegen::DeviceGemmShape& shape, const std::string& location);
  /// Returns the heuristic's first `algorithms` for a product that is taken.
  codegen::DeviceGemm candidates(const codegen::DeviceGemmShape& shape, int algorithms);

  /// Returns true if cuBLASLt was chosen for a product's epilogue (epilogue_choices.h), or nothing was.
  /// answer() must have one call for it.
  bool computes(const codegen::ProductEpilogue& epilogue) const;

  /// Returns how these rows are transformed: as was chosen, except for what cuFFT does not do here.
  ir::FourierWay fourier(const ir::FourierRows& rows);
  /// Returns cuFFT's plan for these rows; nullptr if cuFFT is missing or has no such transform, with a line
  /// in the log the first time in a process.
  const codegen::DeviceFft* fft(const ir::FourierRows& rows);
  /// Returns cuDNN's plan if one of its engines was chosen and is taken here; null: our kernels compute the
  /// attention.
  const codegen::CudnnAttention* attention(const codegen::DeviceAttentionShape& shape);
  /// Returns cuDNN's engines for this attention. Throws UserError if the library is missing,
  /// UnsupportedGraph if it has none.
  codegen::CudnnAttention engines(const codegen::DeviceAttentionShape& shape);

  /// cuDNN's plan of the chosen engine, or of its first; or why cuDNN has none.
  using Convolution = std::variant<codegen::CudnnConvolution, std::string>;
  const Convolution& convolution(const codegen::DeviceConvolution& shape);
  /// Returns cuDNN's engines for this convolution, with the plan of `engine` or of the first. Throws
  /// UserError if the library is missing, UnsupportedGraph if it has none.
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

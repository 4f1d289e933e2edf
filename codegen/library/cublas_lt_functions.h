// cuBLASLt's functions, types and numbers, declared from its documentation: only for cublas_lt.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "codegen/cuda/shared_library.h"

namespace rewire::codegen::cublas {

using Handle = void*;
using Description = void*;  // cublasLtMatmulDesc_t
using Layout = void*;       // cublasLtMatrixLayout_t
using Preference = void*;   // cublasLtMatmulPreference_t
using Status = int;         // cublasStatus_t; 0: success

struct Algorithm {
  std::array<std::uint64_t, 8> opaque;
};
/// cublasLtMatmulHeuristicResult_t
struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace;
  Status state;
  float waves;
  std::array<int, 4> reserved;
};

enum DataType : std::int32_t { kF32 = 0, kF64 = 1, kF16 = 2, kBf16 = 14 };            // cudaDataType
enum Compute : std::int32_t { kCompute32 = 68, kCompute64 = 70, kComputeTf32 = 77 };  // cublasComputeType_t
enum LayoutAttribute : std::int32_t { kBatchCount = 5, kBatchStride = 6 };            // int32, int64
enum DescriptionAttribute : std::int32_t {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kAuxPointer = 11,
  kAuxLeading = 12  // int64, in elements
};
enum Transpose : std::int32_t { kPlain = 0, kTransposed = 1 };
enum Epilogue : std::uint32_t {
  kNoEpilogue = 1,
  kBias = 4,
  kGeluBias = 36,
  kGeluAuxBias = 164,
  kGeluGradientBias = 208  // DGELU_BGRAD
};
enum PreferenceAttribute : std::int32_t { kWorkspace = 1, kReductionSchemes = 3, kAlignmentA = 5 };
/// The type in which sums split over blocks are combined. Both are in fixed order; in-place (1) is not.
enum ReductionScheme : std::uint32_t { kInComputeType = 2, kInOutputType = 4 };
enum Refusal : Status { kInvalidValue = 7, kArchMismatch = 8, kNotSupported = 15 };
enum ConfigAttribute : std::int32_t {
  kId = 0,
  kTile = 1,
  kSplit = 2,
  kSwizzle = 4,
  kOption = 5,
  kStages = 6
};

struct Functions {
  cuda::SharedLibrary file{cuda::kCublasLt};

  Status (*create)(Handle*);
  Status (*destroy)(Handle);
  std::size_t (*version)();
  const char* (*status_name)(Status);
  const char* (*status_text)(Status);
  Status (*create_description)(Description*, std::int32_t compute, std::int32_t scale);
  Status (*destroy_description)(Description);
  Status (*set_description)(Description, std::int32_t, const void*, std::size_t);
  Status (*create_layout)(Layout*, std::int32_t type, std::uint64_t rows, std::uint64_t columns,
                          std::int64_t leading);
  Status (*destroy_layout)(Layout);
  Status (*set_layout)(Layout, std::int32_t, const void*, std::size_t);
  Status (*create_preference)(Preference*);
  Status (*destroy_preference)(Preference);
  Status (*set_preference)(Preference, std::int32_t, const void*, std::size_t);
  Status (*heuristic)(Handle, Description, Layout a, Layout b, Layout c, Layout d, Preference, int wanted,
                      void* results, int* found);
  Status (*check_algorithm)(Handle, Description, Layout a, Layout b, Layout c, Layout d,
                            const void* algorithm, void* result);
  Status (*config)(const void* algorithm, std::int32_t, void*, std::size_t, std::size_t* written);
  Status (*multiply)(Handle, Description, const void* alpha, const void* a, Layout, const void* b, Layout,
                     const void* beta, const void* c, Layout, void* d, Layout, const void* algorithm,
                     void* workspace, std::size_t, void* stream);

  Functions();
};

using Library = cuda::Loaded<Functions>;

/// Returns "CUBLAS_STATUS_NOT_SUPPORTED (the requested functionality is not supported)".
std::string words(Status status);
/// Throws RuntimeFailure that names a failed call and its purpose.
void check(Status status, const char* call, const std::string& what);
/// Returns whether a status is a refusal: another request may be accepted.
bool is_refusal(Status status);

}  // namespace rewire::codegen::cublas

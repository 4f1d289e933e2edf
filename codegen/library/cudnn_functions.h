// cuDNN's backend API: its functions, types and numbers, declared from its documentation. The numbers are
// from cudnn_graph.h of cuDNN 9. Only for the files cudnn_*.
//
// Everything is a descriptor: it is created with a kind, given attributes (a name, a type, a count, an
// array), finalized once, and from then on read or named by others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "codegen/cuda/shared_library.h"

namespace rewire::codegen::cudnn {

using Handle = void*;
using Descriptor = void*;
using Status = int;  // 0: success; 3000 to 3999: not supported

enum Kind : std::int32_t {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kKnobChoice = 7,
  kConvolutionForward = 10,
  kConvolutionBackwardFilter = 11,
  kConvolutionBackwardData = 12,
  kPointwiseOperation = 13,
  kGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31,
  kDeviceProperties = 38
};

enum Attribute : std::int32_t {
  kPointwiseMode = 0,
  kPointwisePrecision = 1,
  kConvolutionPrecision = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPaddingsBehind = 104,
  kConvolutionPaddingsBefore = 105,
  kConvolutionSpatialDimensions = 106,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kHeuristicDevice = 204,
  kConfigEngine = 300,
  kConfigKnobs = 302,
  kConfigWorkspace = 303,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kPlanDevice = 407,
  kKnobType = 600,
  kKnobValue = 601,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardDescriptor = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kBackwardDataAlpha = 706,
  kBackwardDataBeta = 707,
  kBackwardDataDescriptor = 708,
  kBackwardDataW = 709,
  kBackwardDataDx = 710,
  kBackwardDataDy = 711,
  kBackwardFilterAlpha = 712,
  kBackwardFilterBeta = 713,
  kBackwardFilterDescriptor = 714,
  kBackwardFilterDw = 715,
  kBackwardFilterX = 716,
  kBackwardFilterDy = 717,
  kPointwiseDescriptor = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorVirtual = 907,
  kTensorByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineIndex = 1301,
  kEngineNumericalNotes = 1303,
  kMatmulPrecision = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kMatmulDescriptor = 1523,
  kReductionOperator = 1600,
  kReductionPrecision = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kReductionDescriptor = 1612,
  kReshapeX = 2200,
  kReshapeY = 2201,
  kDeviceText = 2702
};

/// The type of an attribute's array.
enum Type : std::int32_t {
  kHandleType = 0,
  kDataTypeType = 1,
  kBooleanType = 2,  // bool
  kInt64Type = 3,
  kFloatType = 4,
  kPointerType = 6,
  kConvolutionModeType = 7,
  kHeuristicModeType = 8,
  kKnobTypeType = 9,
  kNumericalNoteType = 11,
  kPointwiseModeType = 14,
  kDescriptorType = 15,
  kReductionOperatorType = 18,
  kCharType = 24
};

enum DataType : std::int32_t { kF32 = 0, kBf16 = 9 };
enum PointwiseMode : std::int32_t { kAdd = 0, kMul = 1, kDiv = 6, kSub = 9, kExp = 13, kLog = 15 };
enum ReductionOperator : std::int32_t { kSum = 0, kMaximum = 3 };
enum ConvolutionMode : std::int32_t { kCrossCorrelation = 1 };
/// A: all engines it knows, the fastest by its prediction first. Fallback: few, which take almost
/// everything.
enum HeuristicMode : std::int32_t { kFallback = 2, kModeA = 3 };
/// An engine's notes on its arithmetic. With f32 on tensor cores, the operands are rounded to TF32.
enum NumericalNote : std::int32_t {
  kTensorCore = 0,
  kDownConvertInputs = 1,
  kReducedPrecisionReduction = 2,
  kNondeterministic = 4
};

/// From this version on handles are optional and device properties known.
inline constexpr std::size_t kOldest = 90800;
/// Returns "9.19.0" for 91900.
std::string version_text(std::size_t version);

struct Functions {
  cuda::SharedLibrary file{cuda::kCudnn};

  std::size_t (*version)();   // 91900: 9.19.0
  std::size_t (*made_for)();  // the CUDA that it was built with; 12090: 12.9
  const char* (*status_name)(Status);
  void (*last_error)(char* text, std::size_t bytes);
  Status (*create)(Handle*);
  Status (*destroy)(Handle);
  Status (*set_stream)(Handle, void* stream);
  Status (*create_descriptor)(std::int32_t kind, Descriptor*);
  Status (*destroy_descriptor)(Descriptor);
  Status (*finalize)(Descriptor);
  Status (*set_attribute)(Descriptor, std::int32_t attribute, std::int32_t type, std::int64_t count,
                          const void* array);
  Status (*get_attribute)(Descriptor, std::int32_t attribute, std::int32_t type, std::int64_t most,
                          std::int64_t* count, void* array);
  Status (*execute)(Handle, Descriptor plan, Descriptor variant_pack);

  Functions();
};

using Library = cuda::Loaded<Functions>;

/// Returns "CUDNN_STATUS_BAD_PARAM (cuDNN's text on the last failure of this thread)", in one line.
std::string words(Status status);
/// Throws RuntimeFailure that names a failed call and its purpose.
void check(Status status, const char* call, const std::string& what);
/// Returns whether cuDNN does not support this: not in this form, not here, or not in this version.
bool is_refusal(Status status);

}  // namespace rewire::codegen::cudnn

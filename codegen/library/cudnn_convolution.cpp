#include "codegen/library/cudnn_convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "codegen/library/cudnn_engines.h"
#include "ir/opcodes.h"

namespace rewire::codegen {
namespace {

using ir::ConvShape;

/// The attributes of one of the three operations. In terms of y = x * w, they name the tensors x, w and y.
struct ConvolutionRow {
  ir::Opcode code;
  cudnn::Kind kind;
  cudnn::Attribute alpha, beta, descriptor, x, w, y;
};
constexpr std::array<ConvolutionRow, 3> kConvolutionRows = {
    {{ir::Opcode::conv2d, cudnn::kConvolutionForward, cudnn::kForwardAlpha, cudnn::kForwardBeta,
      cudnn::kForwardDescriptor, cudnn::kForwardX, cudnn::kForwardW, cudnn::kForwardY},
     {ir::Opcode::conv2d_input_grad, cudnn::kConvolutionBackwardData, cudnn::kBackwardDataAlpha,
      cudnn::kBackwardDataBeta, cudnn::kBackwardDataDescriptor, cudnn::kBackwardDataDx, cudnn::kBackwardDataW,
      cudnn::kBackwardDataDy},
     {ir::Opcode::conv2d_weight_grad, cudnn::kConvolutionBackwardFilter, cudnn::kBackwardFilterAlpha,
      cudnn::kBackwardFilterBeta, cudnn::kBackwardFilterDescriptor, cudnn::kBackwardFilterX,
      cudnn::kBackwardFilterDw, cudnn::kBackwardFilterDy}}};

/// Returns the strides of a map. Its dimensions are [batch, channels, height, width] in either layout.
cudnn::Dims map_strides(std::int64_t channels, const ConvShape::Plane& plane, bool channels_last) {
  const std::int64_t pixels = plane.height * plane.width;
  if (channels_last) return {pixels * channels, 1, plane.width * channels, channels};
  return {channels * pixels, pixels, plane.width, 1};
}

/// The ids of x, w and y are 1, 2 and 3. cuDNN takes the number of groups from the channels of x and w.
cudnn::Graph convolution_graph(const DeviceConvolution& c) {
  const ConvShape& s = c.shape;
  cudnn::Graph graph(full_name(c));
  const auto tensor = [&](std::int64_t id, cudnn::Dims dims, cudnn::Dims strides) {
    return graph.tensor({.id = id,
                         .dims = std::move(dims),
                         .strides = std::move(strides),
                         .type = c.dtype == ir::DType::bf16 ? cudnn::kBf16 : cudnn::kF32,
                         .alignment = c.alignment});
  };
  const auto pair = [](const ConvShape::Plane& plane) { return cudnn::Dims{plane.height, plane.width}; };
  cudnn::Object convolution(cudnn::kConvolution, graph.what());
  convolution.put_enum(cudnn::kConvolutionPrecision, cudnn::kDataTypeType, cudnn::kF32);
  convolution.put_enum(cudnn::kConvolutionMode, cudnn::kConvolutionModeType, cudnn::kCrossCorrelation);
  convolution.put(cudnn::kConvolutionDilations, std::span<const std::int64_t>(cudnn::Dims{1, 1}));
  convolution.put(cudnn::kConvolutionStrides, std::span<const std::int64_t>(pair(s.stride)));
  convolution.put(cudnn::kConvolutionPaddingsBefore, std::span<const std::int64_t>(pair(s.padding)));
  convolution.put(cudnn::kConvolutionPaddingsBehind, std::span<const std::int64_t>(pair(s.padding)));
  convolution.put(cudnn::kConvolutionSpatialDimensions, std::int64_t{2});

  const ConvolutionRow& row = *std::ranges::find(kConvolutionRows, c.code, &ConvolutionRow::code);
  cudnn::Object operation(row.kind, graph.what());
  operation.put(row.alpha, 1.0F);
  operation.put(row.beta, 0.0F);
  operation.put(row.descriptor, graph.add(std::move(convolution)));
  operation.put(row.x, tensor(1, s.input(false), map_strides(s.inputs, s.in, c.channels_last)));
  operation.put(row.w, tensor(2, s.weight(), map_strides(s.inputs / s.groups, s.kernel, false)));
  operation.put(row.y, tensor(3, s.output(false), map_strides(s.outputs, s.out, c.channels_last)));
  graph.operation(std::move(operation));
  return graph;
}

/// Returns the notes of engines that are refused. On tensor cores, cuDNN rounds f32 operands to TF32. Inputs
/// that are converted down may become f16, which has less range than was asked for.
std::vector<cudnn::NumericalNote> refused_notes(const DeviceConvolution& c) {
  std::vector<cudnn::NumericalNote> notes = {cudnn::kNondeterministic, cudnn::kDownConvertInputs,
                                             cudnn::kReducedPrecisionReduction};
  if (c.dtype == ir::DType::f32 && !c.tf32) notes.push_back(cudnn::kTensorCore);
  return notes;
}

}  // namespace

struct CudnnConvolution::Impl {
  ir::Opcode code;
  cudnn::Engines engines;
};

CudnnConvolution::CudnnConvolution(const Cudnn& library, const DeviceConvolution& convolution,
                                   std::int64_t workspace_limit, std::string_view engine) {
  cudnn::Engines engines(library, convolution_graph(convolution),
                         {workspace_limit, {cudnn::kModeA, cudnn::kFallback}, refused_notes(convolution)});
  std::string why;
  // If an engine fails in another way than by a refusal, the others are still tried.
  const auto makes_plan = [&](std::string_view name) {
    try {
      return engines.choose(name);
    } catch (const RuntimeFailure& failure) {
      why = fmt::format(": {}", failure.what());
      return false;
    }
  };
  if (!makes_plan(engine) && std::ranges::none_of(engines.names(), makes_plan))
    throw UnsupportedGraph(fmt::format("{}: no engine of cuDNN {} makes a plan{}", full_name(convolution),
                                       Cudnn::version(), why));
  impl_ = std::make_unique<Impl>(Impl{convolution.code, std::move(engines)});
}
CudnnConvolution::~CudnnConvolution() = default;
CudnnConvolution::CudnnConvolution(CudnnConvolution&&) noexcept = default;
CudnnConvolution& CudnnConvolution::operator=(CudnnConvolution&&) noexcept = default;

const std::vector<std::string>& CudnnConvolution::engines() const {
  return impl_->engines.names();
}

bool CudnnConvolution::choose(std::string_view engine) {
  return impl_->engines.choose(engine);
}

const std::string& CudnnConvolution::chosen() const {
  return impl_->engines.chosen();
}

std::int64_t CudnnConvolution::workspace_bytes() const {
  return impl_->engines.workspace_bytes();
}

void CudnnConvolution::run(const void* first, const void* second, void* result, void* workspace,
                           void* stream) const {
  switch (impl_->code) {
    case ir::Opcode::conv2d_input_grad:  // (gradient of y, w) -> gradient of x
      impl_->engines.run(std::array{static_cast<const void*>(result), second, first}, workspace, stream);
      return;
    case ir::Opcode::conv2d_weight_grad:  // (x, gradient of y) -> gradient of w
      impl_->engines.run(std::array{first, static_cast<const void*>(result), second}, workspace, stream);
      return;
    default:  // (x, w) -> y
      impl_->engines.run(std::array{first, second, static_cast<const void*>(result)}, workspace, stream);
  }
}

}  // namespace rewire::codegen

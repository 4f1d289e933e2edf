// Convolutions by cuDNN on the fake library, which judges every descriptor: equal to the evaluator whatever their
// shape, layout and type, by the engines that are deterministic and precise enough and by no other.
#include <algorithm>
#include <array>
#include <memory>

#include "codegen/library/cudnn_convolution.h"
#include "codegen/library/cudnn_graph.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "runtime/device/cuda/device.h"
#include "runtime/exec/cuda/libraries.h"
#include "tests/runtime_cuda/convolutions.h"
#include "tests/runtime_cuda/fake_run.h"
#include "tests/support/accuracy.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using codegen::CudnnConvolution;
using codegen::DeviceConvolution;
using ir::ConvShape;
using ir::DType;
using ir::Opcode;

constexpr const char* kTf32Engine = "cuDNN 9.99.0 engine 3, knobs";
constexpr std::array kProducts = {Opcode::conv2d, Opcode::conv2d_input_grad, Opcode::conv2d_weight_grad};

std::vector<ir::Tensor> operands_of(const ir::Module& module) {
  std::vector<ir::Tensor> tensors;
  const ir::Function& main = module.function("main");
  for (const ir::Argument& argument : main.arguments) {
    const ir::TensorType& type = main.type(argument.value);
    ir::Tensor tensor = to_double(testing::noise(type.shape, 3, argument.name.c_str()));
    tensor.type.dtype = type.dtype;
    for (double& value : tensor.data) value = ir::round_to(type.dtype, value);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

ir::Tensor evaluated(const ir::Module& module, const std::vector<ir::Tensor>& inputs) {
  ir::EvalState state;
  return ir::evaluate(module, module.function("main"), inputs, state).front();
}

/// On memory of its own, which is NaN before it is written.
ir::Tensor computed(const CudnnConvolution& engine, const std::vector<ir::Tensor>& inputs,
                    const ir::TensorType& type, const cuda::Stream& stream) {
  std::vector<HostTensor> host;
  std::vector<cuda::DeviceMemory> memory;
  for (const ir::Tensor& input : inputs) {
    host.push_back(to_host(input));
    memory.emplace_back(static_cast<std::int64_t>(host.back().bytes().size()), "an operand");
    stream.copy_in(memory.back().address(), host.back().bytes().data(), memory.back().bytes(), "of a test");
  }
  HostTensor result(type);
  memory.emplace_back(type.bytes(), "a result");
  memory.emplace_back(engine.workspace_bytes(), "a workspace");
  const auto at = [&](std::size_t i) { return reinterpret_cast<void*>(memory[i].address()); };
  engine.run(at(0), at(1), at(2), at(3), stream.handle());
  stream.copy_out(result.bytes().data(), memory[2].address(), type.bytes(), "of a test");
  stream.synchronise("of a test");
  return to_double(result);
}

TEST_CASE(
    "a convolution and its gradients by each engine are the evaluator's, in either layout and both types") {
  const Clean clean;
  fake();
  const cuda::Context context;
  const cuda::Stream stream;
  const codegen::Cudnn library;
  for (const ConvShape& shape : odd_shapes()) {
    for (const Opcode code : kProducts) {
      for (const bool channels_last : {false, true}) {
        for (const DType dtype : {DType::f32, DType::bf16}) {
          const DeviceConvolution c{code, shape, channels_last, dtype};
          CAPTURE(codegen::full_name(c));
          const ir::Module module = one_op(c);
          const std::vector<ir::Tensor> inputs = operands_of(module);
          const ir::Tensor expected = evaluated(module, inputs);
          CudnnConvolution engine(library, c, kConvolutionWorkspace);
          for (const std::string& name : std::vector(engine.engines())) {
            CAPTURE(name);
            REQUIRE(engine.choose(name));
            const ir::Tensor actual = computed(engine, inputs, expected.type, stream);
            CHECK(testing::scaled_error(expected, actual, 0) <= (dtype == DType::bf16 ? 8e-3 : 2e-6));
          }
        }
      }
    }
  }
}

std::vector<std::string> engines_of(DType dtype, bool tf32, std::int64_t workspace = kConvolutionWorkspace) {
  const cuda::Context context;
  const codegen::Cudnn library;
  const DeviceConvolution c{Opcode::conv2d, odd_shapes()[0], true, dtype, tf32};
  return CudnnConvolution(library, c, workspace).engines();
}

TEST_CASE("engines that are not deterministic, narrow their operands or want too much memory are left out") {
  const Clean clean;
  fake();
  using Names = std::vector<std::string>;
  CHECK(engines_of(DType::f32, false) == Names{kFourth, kFifth});
  CHECK(engines_of(DType::f32, true) == Names{kTf32Engine, kFourth, kFifth});
  CHECK(engines_of(DType::bf16, false) == Names{kTf32Engine, kFourth, kFifth});  // TF32 holds bf16
  CHECK(engines_of(DType::f32, false, 16) == Names{kFifth});
  fake().refuse("convolution_engine");
  CHECK_THAT(test::message_of<RuntimeFailure>([] { engines_of(DType::f32, false); }),
             REWIRE_CATCH_CONTAINS("cuDNN 9.99.0 has no engine for it"));
}

TEST_CASE("the first engine that makes a plan is taken, or the one that is named") {
  const Clean clean;
  fake();
  const cuda::Context context;
  const codegen::Cudnn library;
  const DeviceConvolution c{Opcode::conv2d, odd_shapes()[0]};
  CHECK(CudnnConvolution(library, c, kConvolutionWorkspace).chosen() == kFourth);
  CHECK(CudnnConvolution(library, c, kConvolutionWorkspace, kFifth).chosen() == kFifth);
  CHECK(CudnnConvolution(library, c, kConvolutionWorkspace, "cuDNN 1.2.3 engine 5, knobs").chosen() ==
        kFourth);
  fake().refuse("convolution_plan_4");
  CHECK(CudnnConvolution(library, c, kConvolutionWorkspace).chosen() == kFifth);
  fake().refuse("convolution_plan");
  CHECK_THROWS_AS(CudnnConvolution(library, c, kConvolutionWorkspace), codegen::UnsupportedGraph);
}

/// What cuDNN says of a convolution with these strides and this y, or with an attribute left out.
std::string judged(std::int64_t strides, std::int64_t width, bool with_mode) {
  using namespace codegen::cudnn;  // NOLINT: the subject of this function
  Graph graph("a test");
  const auto tensor = [&](std::int64_t id, Dims dims) {
    Dims dense = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    return graph.tensor({.id = id, .dims = std::move(dims), .strides = std::move(dense)});
  };
  return test::message_of<RuntimeFailure>([&] {
    Object convolution(kConvolution, "a test");
    const Dims ones = {1, 1}, steps(static_cast<std::size_t>(strides), 1);
    convolution.put_enum(kConvolutionPrecision, kDataTypeType, kF32);
    if (with_mode) convolution.put_enum(kConvolutionMode, kConvolutionModeType, kCrossCorrelation);
    convolution.put(kConvolutionDilations, std::span<const std::int64_t>(ones));
    convolution.put(kConvolutionStrides, std::span<const std::int64_t>(steps));
    convolution.put(kConvolutionPaddingsBefore, std::span<const std::int64_t>(ones));
    convolution.put(kConvolutionPaddingsBehind, std::span<const std::int64_t>(ones));
    convolution.put(kConvolutionSpatialDimensions, std::int64_t{2});
    Object operation(kConvolutionForward, "a test");
    operation.put(kForwardAlpha, 1.0F);
    operation.put(kForwardBeta, 0.0F);
    operation.put(kForwardDescriptor, graph.add(std::move(convolution)));
    operation.put(kForwardX, tensor(1, {2, 3, 7, 5}));
    operation.put(kForwardW, tensor(2, {4, 3, 3, 3}));
    operation.put(kForwardY, tensor(3, {2, 4, 7, width}));
    graph.operation(std::move(operation));
  });
}

TEST_CASE("the fake library judges convolutions as cuDNN does") {
  const NothingLost nothing_lost;
  fake();
  const cuda::Context context;
  CHECK(judged(2, 5, true) == "(nothing was thrown)");
  CHECK_THAT(judged(1, 5, true), REWIRE_CATCH_CONTAINS("strides of a convolution are two"));
  CHECK_THAT(judged(2, 6, true), REWIRE_CATCH_CONTAINS("a convolution of other extents"));
  CHECK_THAT(judged(2, 5, false), REWIRE_CATCH_CONTAINS("it lacks attribute 101"));
}

}  // namespace
}  // namespace rewire::runtime

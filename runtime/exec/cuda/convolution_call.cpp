// Convolutions of f32 and bf16 by cuDNN. Each uses the engine chosen for it, or else cuDNN's first.
#include <variant>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "runtime/exec/cuda/op_calls.h"

namespace rewire::runtime {

extern const CudaOp kCudaConv2d, kCudaConv2dInputGrad, kCudaConv2dWeightGrad;

namespace {

using codegen::CudnnConvolution;
using codegen::DeviceConvolution;
using codegen::OpCall;
using codegen::Program;
using cuda::Address;
using cuda::Stream;

class ConvolutionCall final : public CudaLaunch {
 public:
  ConvolutionCall(const OpCall& call, const DeviceConvolution& convolution, const CudnnConvolution& engine)
      : first_(call.operands[0]),
        second_(call.operands[1]),
        result_(call.results[0]),
        element_(static_cast<std::int64_t>(ir::dtype_bytes(convolution.dtype))),
        name_(codegen::full_name(convolution)),
        engine_(engine) {}

  std::int64_t workspace_bytes() const override { return engine_.workspace_bytes(); }
  bool is_library_call() const override { return true; }
  LaunchLabel label() const override { return {fmt::format("{}, {}", name_, engine_.chosen())}; }
  void enqueue(const std::vector<Address>& buffers, Address workspace, const Stream& stream) const override {
    const auto at = [&](const codegen::View& view) {
      return reinterpret_cast<void*>(buffers[static_cast<std::size_t>(view.buffer)] +
                                     static_cast<Address>(view.offset * element_));
    };
    engine_.run(at(first_), at(second_), at(result_), reinterpret_cast<void*>(workspace), stream.handle());
  }

 private:
  codegen::View first_, second_, result_;
  std::int64_t element_;  // bytes
  std::string name_;
  const CudnnConvolution& engine_;
};

std::unique_ptr<CudaLaunch> make_convolution(const Program& program, std::size_t launch,
                                             CudaLibraries& libraries) {
  const auto& call = std::get<OpCall>(program.launches[launch]);
  const auto convolution = device_convolution(program, call, libraries.tf32());
  if (!convolution) {
    tell_of_host(call.op, "no library computes it on a GPU");
    return nullptr;
  }
  if (const auto missing = codegen::cudnn_missing())
    user_error("{} needs cuDNN on a GPU: {}, or use --device cpu", ir::describe(call.op), *missing);
  const CudaLibraries::Convolution& found = libraries.convolution(*convolution);
  if (const auto* engine = std::get_if<CudnnConvolution>(&found))
    return std::make_unique<ConvolutionCall>(call, *convolution, *engine);
  tell_of_host(call.op, std::get<std::string>(found));
  return nullptr;
}

}  // namespace

const CudaOp kCudaConv2d{ir::Opcode::conv2d, make_convolution};
const CudaOp kCudaConv2dInputGrad{ir::Opcode::conv2d_input_grad, make_convolution};
const CudaOp kCudaConv2dWeightGrad{ir::Opcode::conv2d_weight_grad, make_convolution};

}  // namespace rewire::runtime

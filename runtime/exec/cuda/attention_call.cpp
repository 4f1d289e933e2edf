// Attention of bf16 by cuDNN. Lowering has ensured that one of its engines was chosen (cuda/lowering.cpp).
#include <fmt/format.h>

#include "ir/opcodes.h"
#include "runtime/exec/cuda/op_calls.h"

namespace rewire::runtime {

extern const CudaOp kCudaAttention, kCudaAttentionGrad;

namespace {

using codegen::OpCall;
using codegen::Program;
using cuda::Address;
using cuda::Stream;

/// Attention, or its gradient, by the cuDNN engine that was chosen for it.
class AttentionCall final : public CudaLaunch {
 public:
  AttentionCall(const Program& program, const OpCall& call, CudaLibraries& libraries)
      : call_(call), shape_(device_attention(program, call).value()), engine_(*libraries.attention(shape_)) {}

  std::int64_t workspace_bytes() const override { return engine_.workspace_bytes(); }
  bool is_library_call() const override { return true; }
  LaunchLabel label() const override {
    return {fmt::format("{}, {}", codegen::full_name(shape_), engine_.chosen())};
  }
  void enqueue(const std::vector<Address>& buffers, Address workspace, const Stream& stream) const override {
    const auto at = [&](const codegen::View& view, std::int64_t element_bytes) -> void* {
      return reinterpret_cast<void*>(buffers[static_cast<std::size_t>(view.buffer)] +
                                     static_cast<Address>(view.offset * element_bytes));
    };
    constexpr std::int64_t kBf16 = 2, kF32 = 4;  // bytes
    const std::vector<codegen::View>&in = call_.operands, &out = call_.results;
    const bool gradient = shape_.gradient;
    const auto of_gradient = [&](const std::vector<codegen::View>& views, std::size_t i) -> void* {
      return gradient ? at(views[i], kBf16) : nullptr;
    };
    engine_.run({at(in[0], kBf16), at(in[1], kBf16), at(in[2], kBf16), at(gradient ? in[3] : out[0], kBf16),
                 at(gradient ? in[4] : out[1], kF32), of_gradient(in, 5), of_gradient(out, 0),
                 of_gradient(out, 1), of_gradient(out, 2)},
                reinterpret_cast<void*>(workspace), stream.handle());
  }

 private:
  OpCall call_;
  codegen::DeviceAttentionShape shape_;
  const codegen::CudnnAttention& engine_;
};

std::unique_ptr<CudaLaunch> make_attention(const Program& program, std::size_t launch,
                                           CudaLibraries& libraries) {
  const auto& call = std::get<OpCall>(program.launches[launch]);
  const auto shape = device_attention(program, call);
  if (!shape || libraries.attention(*shape) == nullptr) return nullptr;
  return std::make_unique<AttentionCall>(program, call, libraries);
}

}  // namespace

const CudaOp kCudaAttention{ir::Opcode::attention, make_attention};
const CudaOp kCudaAttentionGrad{ir::Opcode::attention_grad, make_attention};

}  // namespace rewire::runtime

#include "runtime/exec/cuda/tf32_notice.h"

#include <variant>

#include "codegen/cost.h"
#include "ir/ops/convolution.h"

namespace rewire::runtime {
namespace {

using codegen::Program;

/// Returns the left operand of a product or convolution that a library computes; nullptr for other launches.
const codegen::View* left_operand(const codegen::Launch& launch) {
  if (const auto* gemm = std::get_if<codegen::GemmLaunch>(&launch)) return &gemm->a;
  const auto* call = std::get_if<codegen::OpCall>(&launch);
  return call != nullptr && ir::is_convolution(call->op.code) ? call->operands.data() : nullptr;
}

}  // namespace

std::string idle_tensor_cores(std::span<const Program> programs, bool tf32) {
  constexpr double kWorthALine = 2e9;  // operations; a multiply-add is two
  if (tf32) return "";
  double all = 0, wide = 0;
  for (const Program& program : programs) {
    for (const codegen::Launch& launch : program.launches) {
      const codegen::View* left = left_operand(launch);
      if (left == nullptr) continue;
      const auto flops = static_cast<double>(cost_of(program, launch).flops);
      all += flops;
      if (program.buffers[static_cast<std::size_t>(left->buffer)].type.dtype == ir::DType::f32) wide += flops;
    }
  }
  if (wide < kWorthALine || wide < all / 2) return "";
  return "products are computed in f32, without tensor cores: --set train.tf32=true rounds their operands to "
         "10 "
         "bits of mantissa (PyTorch does so in convolutions by default), --set train.dtype=bf16 to 7";
}

}  // namespace rewire::runtime

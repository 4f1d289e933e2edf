// Convolutions as a device's library takes them: dense maps of f32 or bf16 of either layout, and weights as the op
// has them.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "codegen/program.h"
#include "ir/ops/convolution.h"

namespace rewire::codegen {

/// conv2d or one of its gradients. All of its tensors are of one type; sums are of f32.
struct DeviceConvolution {
  ir::Opcode code{};
  ir::ConvShape shape;
  bool channels_last = false;  // how maps lie in memory
  ir::DType dtype = ir::DType::f32;
  bool tf32 = false;            // operands of f32 may be rounded to TF32
  std::int64_t alignment = 16;  // bytes, that every tensor is aligned to at least
  auto operator<=>(const DeviceConvolution&) const = default;
};

/// All of it, in one line that begins with "convolution ": "convolution weight_grad 32x64x56x56 by 128x64x3x3 nhwc
/// f32 stride 2x2 padding 1x1": the input [batch, channels, height, width], the weight, and what is not the default.
std::string full_name(const DeviceConvolution& convolution);

/// nullopt: it is no convolution, or no library is asked for such a one. `tf32`: products of f32 may be of TF32.
std::optional<DeviceConvolution> device_convolution(const Program& program, const OpCall& call, bool tf32);

}  // namespace rewire::codegen

// Convolutions as a device's library takes them: dense maps of f32 or bf16 of either layout, and weights in
// the op's layout.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "codegen/program.h"
#include "ir/ops/convolution.h"

namespace rewire::codegen {

/// conv2d or one of its gradients. All its tensors have one type; sums are f32.
struct DeviceConvolution {
  ir::Opcode code{};
  ir::ConvShape shape;
  bool channels_last = false;  // how maps lie in memory
  ir::DType dtype = ir::DType::f32;
  bool tf32 = false;            // operands of f32 may be rounded to TF32
  std::int64_t alignment = 16;  // bytes; every tensor is aligned to at least this
  auto operator<=>(const DeviceConvolution&) const = default;
};

/// Returns all of it in one line that begins with "convolution ": "convolution weight_grad 32x64x56x56 by
/// 128x64x3x3 nhwc f32 stride 2x2 padding 1x1": the input [batch, channels, height, width], the weight, and
/// what differs from the default.
std::string full_name(const DeviceConvolution& convolution);

/// Returns the convolution of a call; nullopt: it is none, or no library takes it. `tf32`: products of f32
/// may be of TF32.
std::optional<DeviceConvolution> device_convolution(const Program& program, const OpCall& call, bool tf32);

}  // namespace rewire::codegen

#include "codegen/library/device_convolution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/opcodes.h"

namespace rewire::codegen {
namespace {

constexpr std::int64_t kVector = 16;  // bytes, of the widest load

std::string planes(const ir::ConvShape::Plane& plane) {
  return fmt::format("{}x{}", plane.height, plane.width);
}

}  // namespace

std::string full_name(const DeviceConvolution& c) {
  constexpr ir::ConvShape::Plane kOne{1, 1}, kNone{0, 0};
  const char* product = c.code == ir::Opcode::conv2d              ? "forward"
                        : c.code == ir::Opcode::conv2d_input_grad ? "input_grad"
                                                                  : "weight_grad";
  std::string name = fmt::format("convolution {} {} by {} {} {}", product,
                                 fmt::join(c.shape.input(false), "x"), fmt::join(c.shape.weight(), "x"),
                                 c.channels_last ? "nhwc" : "nchw", ir::dtype_name(c.dtype));
  if (c.tf32) name += " tf32";
  if (c.shape.stride != kOne) name += " stride " + planes(c.shape.stride);
  if (c.shape.padding != kNone) name += " padding " + planes(c.shape.padding);
  if (c.shape.groups != 1) name += fmt::format(" groups {}", c.shape.groups);
  if (c.alignment != kVector) name += fmt::format(" aligned to {}", c.alignment);
  return name;
}

std::optional<DeviceConvolution> device_convolution(const Program& program, const OpCall& call, bool tf32) {
  if (!ir::is_convolution(call.op.code)) return std::nullopt;
  DeviceConvolution c;
  c.code = call.op.code;
  c.shape = ir::conv_shape(c.code, call.op.attributes, call.operands[0].shape, call.operands[1].shape);
  c.channels_last = ir::is_channels_last(call.op.attributes);
  const auto dtype = [&](const View& view) {
    return program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype;
  };
  c.dtype = dtype(call.operands[0]);
  if (c.dtype != ir::DType::f32 && c.dtype != ir::DType::bf16) return std::nullopt;
  c.tf32 = tf32 && c.dtype == ir::DType::f32;
  const auto element = static_cast<std::int64_t>(ir::dtype_bytes(c.dtype));
  for (const View& view : {call.operands[0], call.operands[1], call.results[0]}) {
    if (ir::element_count(view.shape) == 0) return std::nullopt;
    if (view.offset * element % kVector != 0) c.alignment = element;
  }
  return c;
}

}  // namespace rewire::codegen

#include "codegen/library/device_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/opcodes.h"
#include "ir/ops/attention.h"

namespace rewire::codegen {
namespace {

constexpr std::int64_t kRow = 8;          // elements of bf16 in 16 bytes
constexpr std::int64_t kMostWidth = 128;  // channels of a head, on every architecture

ir::DType element_type(const Program& program, const View& view) {
  return program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype;
}

/// Returns nullopt if a view's rows repeat, or do not begin at multiples of 16 bytes. An axis of extent 1
/// may have any stride; here it gets the span of the other axes.
std::optional<DeviceAttentionShape::Tensor> tensor_of(const Program& program, const View& view) {
  if (element_type(program, view) != ir::DType::bf16 || view.offset % kRow != 0) return std::nullopt;
  if (view.shape[3] > 1 && view.strides[3] != 1) return std::nullopt;
  std::int64_t span = view.shape[3];
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (view.shape[axis] == 1) continue;
    if (view.strides[axis] <= 0 || view.strides[axis] % kRow != 0) return std::nullopt;
    span = std::max(span, view.shape[axis] * view.strides[axis]);
  }
  const auto stride = [&](std::size_t axis) { return view.shape[axis] == 1 ? span : view.strides[axis]; };
  return DeviceAttentionShape::Tensor{stride(0), stride(1), stride(2)};
}

bool is_dense(const Program& program, const View& view) {
  std::int64_t stride = 1;
  for (std::size_t axis = view.shape.size(); axis-- > 0;) {
    if (view.shape[axis] > 1 && view.strides[axis] != stride) return false;
    stride *= view.shape[axis];
  }
  return element_type(program, view) == ir::DType::f32 && view.offset % 4 == 0;
}

std::string strides(const char* name, const DeviceAttentionShape::Tensor& tensor) {
  return fmt::format(" {}={},{},{}", name, tensor.batch, tensor.head, tensor.token);
}

}  // namespace

std::string full_name(const DeviceAttentionShape& s) {
  std::string name =
      fmt::format("attention {} {}x{}x{}x{}x{} bf16 scale {}", s.gradient ? "gradient" : "forward", s.batch,
                  s.heads, s.queries, s.keys, s.width, s.scale);
  name += strides("q", s.q) + strides("k", s.k) + strides("v", s.v) + strides("o", s.output);
  if (s.gradient)
    name += strides("do", s.d_output) + strides("dq", s.dq) + strides("dk", s.dk) + strides("dv", s.dv);
  return name;
}

std::optional<DeviceAttentionShape> device_attention(const Program& program, const OpCall& call) {
  const View &q = call.operands[0], &k = call.operands[1], &v = call.operands[2];
  const ir::AttentionForm form = ir::attention_form(call.op);
  if (form.masked() || form.bias >= 0 || k.shape[1] != q.shape[1] || v.shape != k.shape) return std::nullopt;
  DeviceAttentionShape shape;
  shape.gradient = call.op.code == ir::Opcode::attention_grad;
  shape.batch = q.shape[0], shape.heads = q.shape[1], shape.queries = q.shape[2];
  shape.keys = k.shape[2], shape.width = q.shape[3];
  shape.scale = call.op.attributes.get_double("scale");
  const View& output = shape.gradient ? call.operands[3] : call.results[0];
  const View& lse = shape.gradient ? call.operands[4] : call.results[1];
  if (shape.width % kRow != 0 || shape.width > kMostWidth || !is_dense(program, lse)) return std::nullopt;
  const auto put = [&](DeviceAttentionShape::Tensor& to, const View& view) {
    const std::optional<DeviceAttentionShape::Tensor> tensor = tensor_of(program, view);
    if (tensor) to = *tensor;
    return tensor.has_value();
  };
  bool taken = put(shape.q, q) && put(shape.k, k) && put(shape.v, v) && put(shape.output, output);
  if (shape.gradient)
    taken = taken && put(shape.d_output, call.operands[5]) && put(shape.dq, call.results[0]) &&
            put(shape.dk, call.results[1]) && put(shape.dv, call.results[2]);
  return taken ? std::optional(shape) : std::nullopt;
}

}  // namespace rewire::codegen

// VJPs of conv2d and of its two gradients. All three come from one trilinear form <y, x * w>, so the
// gradients of each are the other two.
#include "ir/opcodes.h"
#include "ir/ops/convolution.h"
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {
namespace {

Attributes window(const VjpContext& c) {
  Attributes attributes = c.op.attributes;
  attributes.erase("size");
  attributes.erase("kernel");
  return attributes;
}

ConvShape shape_of(VjpContext& c) {
  return conv_shape(c.op.code, c.op.attributes, c.builder.shape(c.operand(0)), c.builder.shape(c.operand(1)));
}

/// Returns x * w.
Value product(VjpContext& c, Value x, Value w) {
  return c.builder.emit(Opcode::conv2d, {x, w}, window(c));
}

Value of_input(VjpContext& c, Value g, Value w) {
  const ConvShape shape = shape_of(c);
  Attributes attributes = window(c);
  attributes.set("size", Ints{shape.in.height, shape.in.width});
  return c.builder.emit(Opcode::conv2d_input_grad, {g, w}, std::move(attributes));
}

Value of_weight(VjpContext& c, Value x, Value g) {
  const ConvShape shape = shape_of(c);
  Attributes attributes = window(c);
  attributes.set("kernel", Ints{shape.kernel.height, shape.kernel.width});
  return c.builder.emit(Opcode::conv2d_weight_grad, {x, g}, std::move(attributes));
}

}  // namespace

void vjp_conv2d(VjpContext& c) {
  if (c.needs(0)) c.accumulate(0, of_input(c, c.cotangent(), c.operand(1)));
  if (c.needs(1)) c.accumulate(1, of_weight(c, c.operand(0), c.cotangent()));
}

void vjp_conv2d_input_grad(VjpContext& c) {
  if (c.needs(0)) c.accumulate(0, product(c, c.cotangent(), c.operand(1)));
  if (c.needs(1)) c.accumulate(1, of_weight(c, c.cotangent(), c.operand(0)));
}

void vjp_conv2d_weight_grad(VjpContext& c) {
  if (c.needs(0)) c.accumulate(0, of_input(c, c.operand(1), c.cotangent()));
  if (c.needs(1)) c.accumulate(1, product(c, c.operand(0), c.cotangent()));
}

}  // namespace rewire::ir

#include "ir/passes/pointwise_convolution.h"

#include "ir/opcodes.h"
#include "ir/ops/convolution.h"
#include "ir/passes/rewrite.h"

namespace rewire::ir {
namespace {

bool is_pointwise(const ConvShape& shape) {
  constexpr ConvShape::Plane kOne{1, 1}, kNone{0, 0};
  return shape.kernel == kOne && shape.padding == kNone && shape.groups == 1;
}

/// Returns the pixels of maps [batch, height, width, channels] that the stride reads.
Value met(Builder& b, Value maps, const ConvShape& shape) {
  constexpr ConvShape::Plane kOne{1, 1};
  if (shape.stride == kOne) return maps;
  return b.emit(Opcode::slice, {maps},
                {{"starts", Ints{0, 0, 0, 0}},
                 {"limits", Ints(b.shape(maps))},
                 {"strides", Ints{1, shape.stride.height, shape.stride.width, 1}}});
}

/// The adjoint of met(): puts zeros at the pixels that the stride skips.
Value spread(Builder& b, Value maps, const ConvShape& shape) {
  constexpr ConvShape::Plane kOne{1, 1};
  if (shape.stride == kOne) return maps;
  const ConvShape::Plane &out = shape.out, &stride = shape.stride, &in = shape.in;
  Value x = b.reshape(maps, {shape.batch, out.height, 1, out.width, 1, shape.inputs});
  x = b.emit(Opcode::pad, {x},
             {{"low", Ints(6, 0)}, {"high", Ints{0, 0, stride.height - 1, 0, stride.width - 1, 0}}});
  x = b.reshape(x, {shape.batch, out.height * stride.height, out.width * stride.width, shape.inputs});
  // The spread maps have at least the input's extents, so the slices cut off the excess.
  return b.slice(b.slice(x, 1, 0, in.height), 2, 0, in.width);
}

/// Returns x as [rows, columns].
Value matrix(Builder& b, Value x, std::int64_t columns) {
  return b.reshape(x, {b.type(x).elements() / columns, columns});
}

Value product(Builder& b, const Op& op, const ConvShape& shape) {
  const bool of_weight = op.code == Opcode::conv2d_weight_grad,
             of_input = op.code == Opcode::conv2d_input_grad;
  const Shape result = b.shape(op.results[0]);
  const Value first = of_input ? op.operands[0] : met(b, op.operands[0], shape);
  const Value x = matrix(b, first, of_input ? shape.outputs : shape.inputs);
  const Value y = matrix(b, op.operands[1], of_weight ? shape.outputs : shape.inputs);
  if (of_weight) return b.reshape(b.matmul(y, x, true, false), result);
  const Value z = b.matmul(x, y, false, !of_input);
  if (!of_input) return b.reshape(z, result);
  return spread(b, b.reshape(z, {shape.batch, shape.out.height, shape.out.width, shape.inputs}), shape);
}

}  // namespace

void pointwise_convolution(Module& module, PassContext& /*context*/) {
  for (Function& function : module.functions) {
    BodyRewriter rewriter(module, function);
    rewriter.run([&](const Op& op) -> std::optional<std::vector<Value>> {
      if (!is_convolution(op.code) || !is_channels_last(op.attributes)) return std::nullopt;
      const ConvShape shape = conv_shape(op.code, op.attributes, function.type(op.operands[0]).shape,
                                         function.type(op.operands[1]).shape);
      if (!is_pointwise(shape) || shape.inputs == 0 || shape.outputs == 0) return std::nullopt;
      return std::vector<Value>{product(rewriter.builder(), op, shape)};
    });
  }
}

}  // namespace rewire::ir

#include "ir/passes/pointwise_convolution.h"

#include "ir/ops/convolution.h"
#include "ir/passes/rewrite.h"

namespace rewire::ir {
namespace {

bool is_pointwise(const ConvShape& shape) {
  constexpr ConvShape::Plane kOne{1, 1}, kNone{0, 0};
  return shape.kernel == kOne && shape.stride == kOne && shape.padding == kNone && shape.groups == 1;
}

/// [rows, columns].
Value matrix(Builder& b, Value x, std::int64_t columns) {
  return b.reshape(x, {b.type(x).elements() / columns, columns});
}

Value product(Builder& b, const Op& op, const ConvShape& shape) {
  const Value first = op.operands[0], second = op.operands[1];
  const Shape result = b.shape(op.results[0]);
  const auto input = [&](Value x) { return matrix(b, x, shape.inputs); };  // of the weight as well
  const auto output = [&](Value g) { return matrix(b, g, shape.outputs); };
  switch (op.code) {
    case Opcode::conv2d:
      return b.reshape(b.matmul(input(first), input(second), false, true), result);
    case Opcode::conv2d_input_grad:
      return b.reshape(b.matmul(output(first), input(second)), result);
    default:
      return b.reshape(b.matmul(output(second), input(first), true, false), result);
  }
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

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
  const bool of_weight = op.code == Opcode::conv2d_weight_grad,
             of_input = op.code == Opcode::conv2d_input_grad;
  const Shape result = b.shape(op.results[0]);
  const Value x = matrix(b, op.operands[0], of_input ? shape.outputs : shape.inputs);
  const Value y = matrix(b, op.operands[1], of_weight ? shape.outputs : shape.inputs);
  if (of_weight) return b.reshape(b.matmul(y, x, true, false), result);
  return b.reshape(b.matmul(x, y, false, !of_input), result);
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

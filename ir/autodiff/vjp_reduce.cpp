// VJPs of the reductions. Reduced axes keep extent 1, so a cotangent broadcasts back without a reshape.
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {

void vjp_sum(VjpContext& c) {
  const Shape shape = c.builder.shape(c.operand(0));
  c.accumulate(0, c.builder.broadcast(c.cotangent(), shape));
}

// dx = g / (number of ties) where x is the maximum, else 0.
void vjp_max(VjpContext& c) {
  Builder& b = c.builder;
  const TensorType type = b.type(c.operand(0));
  const Value is_max = b.compare("eq", c.operand(0), b.broadcast(c.result(), type.shape));
  const Value ties = b.sum(b.cast(is_max, type.dtype), c.op.attributes.get_ints("axes"));
  const Value share = b.broadcast(b.div(c.cotangent(), ties), type.shape);
  c.accumulate(0, b.select(is_max, share, b.constant(0.0, type.dtype, type.shape)));
}

}  // namespace rewire::ir

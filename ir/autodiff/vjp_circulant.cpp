// VJPs of block-circulant products. A product is linear in both operands, so its adjoints are again
// circulant_matmul or circulant_matmul_grad:
//   y = x C(c)       dx = g C(c)^T,   dc = circulant_matmul_grad(x, g)
//   y = x C(c)^T     dx = g C(c),     dc = circulant_matmul_grad(g, x)
//   dc = circulant_matmul_grad(x, g), with h its cotangent:   dx = g C(h)^T,   dg = x C(h)
#include "ir/opcodes.h"
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {
namespace {

/// Returns x C(c), or x C(c)^T if `transpose`, with the form and the lowering of `op`.
Value product(Builder& b, const Op& op, Value x, Value c, bool transpose) {
  return b.emit(Opcode::circulant_matmul, {x, c},
                {{"correlation", op.attributes.get_bool("correlation")},
                 {"lowering", op.attributes.get_string("lowering")},
                 {"transpose", transpose}});
}

}  // namespace

void vjp_circulant_matmul(VjpContext& c) {
  Builder& b = c.builder;
  const bool transpose = c.op.attributes.get_bool("transpose");
  const Value x = c.operand(0), lags = c.operand(1), g = c.cotangent();
  if (c.needs(0)) c.accumulate(0, product(b, c.op, g, lags, !transpose));
  if (!c.needs(1)) return;
  const Value source = transpose ? g : x, result = transpose ? x : g;
  c.accumulate(1, b.emit(Opcode::circulant_matmul_grad, {source, result},
                         {{"correlation", c.op.attributes.get_bool("correlation")},
                          {"lags", b.shape(lags).back()},
                          {"lowering", c.op.attributes.get_string("lowering")}}));
}

void vjp_circulant_matmul_grad(VjpContext& c) {
  const Value x = c.operand(0), g = c.operand(1), h = c.cotangent();
  if (c.needs(0)) c.accumulate(0, product(c.builder, c.op, g, h, true));
  if (c.needs(1)) c.accumulate(1, product(c.builder, c.op, x, h, false));
}

}  // namespace rewire::ir

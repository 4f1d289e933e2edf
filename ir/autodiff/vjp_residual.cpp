// VJPs of the sums that connect a network: the residual join and the all-reduce over ranks.
#include "ir/opcodes.h"
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"
#include "ir/residual.h"

namespace rewire::ir {

// The join is the sum of its terms. Its operands stream,
// branch and input are only there for rewrites to read.
void vjp_residual(VjpContext& c) {
  for (std::size_t i = kFirstJoinTerm; i < c.op.operands.size(); ++i) c.accumulate(i, c.cotangent());
}

// The loss is the sum of the ranks' losses, and each rank's loss reads this sum.
void vjp_all_reduce(VjpContext& c) {
  c.accumulate(0, c.builder.unary(Opcode::all_reduce, c.cotangent()));
}

}  // namespace rewire::ir

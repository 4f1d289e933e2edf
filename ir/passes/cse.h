// Two ops that compute the same from the same operands become the first of them: same op, operands,
// attributes bit for bit, result types. Operands of a commutative op are compared without order. Reads of a
// parameter are equal too: an update follows all reads of its state (V7), so none stands between two of them.
// Draws from one random stream are equal by definition. Effects (update) and all_reduce, which every rank
// must issue alike, stay.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void cse(Module& module, PassContext& context);

}  // namespace rewire::ir

// Merges ops that compute the same: op, operands, attributes (bit for bit) and result types are equal. The
// first one stays. Operands of a commutative op are compared without order. Reads of a parameter are equal,
// because an update follows all reads of its state (V7). Draws from one random stream are equal by
// definition. Effects (update) and all_reduce, which every rank must issue alike, stay.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void cse(Module& module, PassContext& context);

}  // namespace rewire::ir

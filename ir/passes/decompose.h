// composite(x, …) = its decomposition in smaller ops, by the `decompose` column of the op table: layer_norm,
// softmax, gelu, dropout, cross_entropy, …, and residual = the sum of its terms. So that a join fuses with
// its norm, and a row's statistics are computed once for forward and backward. Runs after autodiff, whose
// rules for composites are better than what their parts would give. Ops without a decomposition (attention)
// stay whole for the tile level.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void decompose(Module& module, PassContext& context);

}  // namespace rewire::ir

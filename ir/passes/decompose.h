// Replaces composite(x, …) by smaller ops, by the op table's column `decompose`: layer_norm, softmax, gelu,
// dropout, cross_entropy, …, and residual by the sum of its terms. So a join fuses with its norm, and
// forward and backward compute a row's statistics once. It runs after autodiff, because the gradient rules
// of composites are better than those of their parts. Ops without a decomposition (attention) stay whole for
// the tile level.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void decompose(Module& module, PassContext& context);

}  // namespace rewire::ir

// op(constants) = constant, computed by the evaluator, in double precision and without rounding to the dtype
// in between, so that the oracle gives the same before and after.
//
// A pointwise op on constants that are one number everywhere is such a constant again, of any size. Other
// results are folded up to kMaxFoldedElements elements, since they are spelled out in the IR. Results that
// their dtype does not hold (an i32 of 2^31) stay to be computed at run time.
#pragma once

#include <cstdint>

#include "ir/passes/pass.h"

namespace rewire::ir {

inline constexpr std::int64_t kMaxFoldedElements = 256;

void constant_fold(Module& module, PassContext& context);

}  // namespace rewire::ir

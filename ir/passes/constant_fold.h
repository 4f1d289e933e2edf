// Computes op(constants) = constant by the evaluator, in double precision and without intermediate rounding
// to the dtype. So the evaluator gives the same results before and after.
//
// A pointwise op on splat constants (all elements equal) becomes a splat constant of any size. Other results
// are folded up to kMaxFoldedElements elements, because the IR spells them out. Results that their dtype
// does not hold (an i32 of 2^31) are left to run time.
#pragma once

#include <cstdint>

#include "ir/passes/pass.h"

namespace rewire::ir {

inline constexpr std::int64_t kMaxFoldedElements = 256;

void constant_fold(Module& module, PassContext& context);

}  // namespace rewire::ir

// Algebra that makes a function smaller or brings it to one form: a table of rules, each a row with its
// equation (canonicalise_pointwise.cpp, canonicalise_shape.cpp, canonicalise_reduce.cpp).
//
// What a rule may change: the sign of a zero (-0.0 + 0 = 0.0, but x + 0 becomes x), the bits of a NaN, and
// the place of a rounding where its equation says so. NaN and infinity otherwise come out as they would have:
// x·0, x - x and x/x stay for floats.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void canonicalise(Module& module, PassContext& context);

}  // namespace rewire::ir

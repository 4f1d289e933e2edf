// Algebra that makes a function smaller or brings it to one form. It is a table of rules, each a row with
// its equation (canonicalise_pointwise.cpp, canonicalise_shape.cpp, canonicalise_reduce.cpp).
//
// A rule may change the sign of a zero (-0.0 + 0 = 0.0, but x + 0 becomes x), the bits of a NaN, and the
// place of a rounding if its equation says so. Otherwise NaN and infinity are preserved: x·0, x - x and x/x
// stay for floats.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void canonicalise(Module& module, PassContext& context);

}  // namespace rewire::ir

// Convolutions take their maps as [batch, height, width, channels], which is what libraries compute fastest and where a
// map's statistics are sums over columns. With t a transposition of a map to that order:
//
//   conv2d(x, w)              = t'(conv2d_nhwc(t(x), w)), the two gradients alike
//   f(t'(x), y)               = t'(f(x, t(y)))              f pointwise
//   f(t'(x))                  = t'(f'(x))                   f a reduction, broadcast, slice, pad or concat, f' the same on
//                                                           moved axes
//
// where t'(x) is known to be transposed. Transpositions that nobody reads are dce's to remove, those that meet canonicalise's.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void channels_last(Module& module, PassContext& context);

}  // namespace rewire::ir

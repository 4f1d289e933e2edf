// Gives convolutions maps of [batch, height, width, channels]. Libraries compute this layout fastest, and a
// map's statistics are sums over columns in it. With t the transposition of a map to that order:
//
//   conv2d(x, w)   = t'(conv2d_nhwc(t(x), w)), and likewise the two gradients
//   f(t'(x), y)    = t'(f(x, t(y)))     f pointwise
//   f(t'(x))       = t'(f'(x))          f a reduction, broadcast, slice, pad or concat, f' the same op on
//                                       moved axes
//
// if t'(x) is known to be transposed, by this pass or by the network itself. dce removes unused transpositions; canonicalise cancels adjacent ones.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void channels_last(Module& module, PassContext& context);

}  // namespace rewire::ir

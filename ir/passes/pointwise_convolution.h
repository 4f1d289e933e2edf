// Turns a convolution with a kernel of one pixel into a product of pixels and channels. Channels are last;
// x2 are the pixels that the stride selects as [pixels, channels], w2 is the weight as [outputs, channels]:
//
//   conv2d(x, w) = x2 w2'      conv2d_input_grad(g, w) = g2 w2      conv2d_weight_grad(x, g) = g2' x2
//
// The gradient of x is 0 at pixels that the stride skips. Products take biases and epilogues, and every
// device's library has them. Convolutions with padding or groups stay.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void pointwise_convolution(Module& module, PassContext& context);

}  // namespace rewire::ir

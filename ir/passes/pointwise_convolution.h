// A convolution whose kernel is one pixel is a product of pixels and channels. With channels last, x2 the pixels that the
// stride meets as [pixels, channels] and w2 the weight as [outputs, channels]:
//
//   conv2d(x, w) = x2 w2'      conv2d_input_grad(g, w) = g2 w2      conv2d_weight_grad(x, g) = g2' x2
//
// the gradient of x has zeros at the pixels that the stride leaves out. Products take biases and epilogues, and every
// device's library. Padding and groups stay convolutions.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void pointwise_convolution(Module& module, PassContext& context);

}  // namespace rewire::ir

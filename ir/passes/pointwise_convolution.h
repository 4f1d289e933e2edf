// A convolution whose kernel is one pixel and leaves out none is a product of pixels and channels. With channels last, x2 the
// map as [pixels, channels] and w2 the weight as [outputs, channels]:
//
//   conv2d(x, w) = x2 w2'      conv2d_input_grad(g, w) = g2 w2      conv2d_weight_grad(x, g) = g2' x2
//
// Products take biases and epilogues, and every device's library. Strides other than 1 stay convolutions: so do
// padding and groups.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void pointwise_convolution(Module& module, PassContext& context);

}  // namespace rewire::ir

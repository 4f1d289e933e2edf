// Computes a convolution of bf16, which mixed precision made, in f32 on a backend that has none of bf16:
//
//   conv2d(bf16(x), bf16(w)) : bf16     -> bf16(conv2d(x, w))     x and w as they were before the casts
//   f32(bf16(conv2d(x, w)))             -> conv2d(x, w)
//
// So such a convolution is as exact as without mixed precision. Gradients likewise. Convolutions of one
// pixel are products by now, and stay narrow.
#pragma once

#include "ir/passes/pass.h"

namespace rewire::ir {

void widen_convolutions(Module& module, PassContext& context);

}  // namespace rewire::ir

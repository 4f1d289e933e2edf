// Convolutions of maps [batch, height, width, channels] by the product's code (codegen/llvm/product.h), without a matrix of
// windows in memory:
//
//   maps      a pixel of the result is a product of the kernel's rows, each `kernel width x channels` elements that lie side
//             by side in the maps, and of packed weights. A task copies a band of the maps between margins of zeros into a
//             cache, and reads it where it stands. The gradient of the maps, at a stride of 1, is the convolution of the
//             result's gradient with the weights turned by half a turn.
//   weights   dw [outputs, taps x inputs] = g' X, over the pixels of the result. A task packs X, the maps moved by a tap, panel by
//             panel.
//
// How they are cut into tasks depends on shapes alone, and each sum is added up in one order.
#pragma once

#include <memory>

#include "codegen/llvm/product.h"
#include "codegen/program.h"
#include "runtime/exec/cpu/launches.h"

namespace rewire::runtime {

/// Whether our code computes it: f32 throughout, channels last, one group, and channels enough to fill its blocks.
bool takes_convolution(const codegen::Program& program, const codegen::OpCall& call);
/// Of a call that it takes. `code` must outlive it.
std::unique_ptr<CpuLaunch> make_convolution_launch(const codegen::OpCall& call,
                                                   const codegen::ProductCode& code);

}  // namespace rewire::runtime

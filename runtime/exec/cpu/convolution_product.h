// Convolutions of maps [batch, height, width, channels] by the product's code (codegen/llvm/product.h),
// without a matrix of windows in memory:
//
//   maps      A pixel of the result is a product of packed weights and the kernel's rows, each `kernel width
//             x channels` adjacent elements of the maps. A task copies a band of the maps with margins of
//             zeros into a cache and reads it there. At a stride of 1, the gradient of the maps is the
//             convolution of the result's gradient with the weights turned by half a turn.
//   weights   dw [outputs, taps x inputs] = g' X, over the pixels of the result. A task packs X, the maps
//             moved by a tap, panel by panel.
//
// The cut into tasks depends on shapes alone, and each sum is added up in one order.
#pragma once

#include <memory>

#include "codegen/llvm/product.h"
#include "codegen/program.h"
#include "runtime/exec/cpu/launches.h"

namespace rewire::runtime {

/// Returns true if our code computes the call: f32 throughout, channels last, one group, and enough channels
/// for its blocks.
bool takes_convolution(const codegen::Program& program, const codegen::OpCall& call);
/// Makes the launch of a call that takes_convolution() accepts. `code` must outlive it.
std::unique_ptr<CpuLaunch> make_convolution_launch(const codegen::OpCall& call,
                                                   const codegen::ProductCode& code);

}  // namespace rewire::runtime

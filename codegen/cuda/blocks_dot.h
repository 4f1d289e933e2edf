// Writes a product of f32 in a block kernel: fused multiply-adds, a square of 4 x 4 per thread.
#pragma once

#include "codegen/cuda/blocks_plan.h"
#include "codegen/cuda/kernel_text.h"

namespace rewire::codegen::cuda {

/// Writes c [a's lanes, b's lane] = a b, or its transpose where b's lane comes first.
void write_dot(const tile::Dot& dot, const BlockPlan& plan, const KernelText& text, Lines& lines);

}  // namespace rewire::codegen::cuda

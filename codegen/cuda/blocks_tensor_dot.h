// Products on tensor cores in the text of a block kernel: operands that lie in shared memory as bf16, tiles
// of 16 rows a warp, and what is done point by point with the elements of a tile while they are in registers.
#pragma once

#include "codegen/cuda/blocks_plan.h"
#include "codegen/cuda/blocks_values.h"
#include "codegen/cuda/kernel_text.h"

namespace rewire::codegen::cuda {

/// Whether a step is nothing but loads into arrays as they lie in memory: packets of neighbours.
bool is_copies(const BlockStep& step, const BlockPlan& plan, const KernelText& text);
/// Such a step. Its copies are under way until finish_copies (prelude.cuh).
void write_copies(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines);

/// A step of products, and what its warps do with their elements.
void write_tensor_dot(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines,
                      BlockValues& values);

}  // namespace rewire::codegen::cuda

// Writes products on tensor cores in a block kernel: operands in shared memory as bf16, tiles of 16 rows per
// warp, and pointwise work on the elements of a tile while they are in registers.
#pragma once

#include "codegen/cuda/blocks_plan.h"
#include "codegen/cuda/blocks_values.h"
#include "codegen/cuda/kernel_text.h"

namespace rewire::codegen::cuda {

/// Returns whether a step only copies packets of neighbours from memory into shared arrays.
bool is_copies(const BlockStep& step, const BlockPlan& plan, const KernelText& text);
/// Writes such a step. Its copies are in flight until finish_copies (prelude.cuh).
void write_copies(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines);

/// Writes a step of products, and the work of its warps on their elements.
void write_tensor_dot(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines,
                      BlockValues& values);

}  // namespace rewire::codegen::cuda

// Writes products on tensor cores in a block kernel: operands in shared memory as bf16, tiles of 16 rows per
// warp, and pointwise work on the elements of a tile while they are in registers.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/cuda/blocks_plan.h"
#include "codegen/cuda/blocks_values.h"
#include "codegen/cuda/kernel_text.h"

namespace rewire::codegen::cuda {

/// Returns whether a step only copies packets of neighbours from memory into shared arrays.
bool is_copies(const BlockStep& step, const BlockPlan& plan, const KernelText& text);
/// Writes such a step. Its copies are in flight until finish_copies (prelude.cuh).
void write_copies(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines);

/// Writes a load into the half of its array that is for the window from row `first` on ("": from 0 on);
/// at most `rows` of it. Its copies may be in flight until finish_copies.
void write_window_load(const tile::Load& load, const std::string& first, std::int64_t rows,
                       const BlockPlan& plan, const KernelText& text, Lines& lines, BlockValues& values);
/// Writes two steps of products in windows (blocks_windows.h). Their first window is in shared memory.
void write_windows(const BlockStep& first, const BlockStep& second, const BlockPlan& plan,
                   const KernelText& text, Lines& lines, BlockValues& values);

/// Writes a step of products, and the work of its warps on their elements.
void write_tensor_dot(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines,
                      BlockValues& values);

}  // namespace rewire::codegen::cuda

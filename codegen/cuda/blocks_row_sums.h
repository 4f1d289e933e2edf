// Reductions of a block kernel along rows that lie in memory, or in shared memory, element beside element: a
// few threads share a row, and each reads it 16 bytes at once.
#pragma once

#include "codegen/cuda/blocks_plan.h"
#include "codegen/cuda/blocks_values.h"
#include "codegen/cuda/kernel_text.h"

namespace rewire::codegen::cuda {

/// A step of reductions over one lane axis. False, and nothing written, where something that it reads does
/// not lie so.
bool write_row_sums(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines,
                    BlockValues& values);

}  // namespace rewire::codegen::cuda

// Reductions of a block kernel along rows whose elements lie side by side, in memory or in shared memory: a
// few threads share a row, and each reads 16 bytes at once.
#pragma once

#include "codegen/cuda/blocks_plan.h"
#include "codegen/cuda/blocks_values.h"
#include "codegen/cuda/kernel_text.h"

namespace rewire::codegen::cuda {

/// Writes a step of reductions over one lane axis. Returns false, and writes nothing, if a value that it
/// reads lies otherwise.
bool write_row_sums(const BlockStep& step, const BlockPlan& plan, const KernelText& text, Lines& lines,
                    BlockValues& values);

}  // namespace rewire::codegen::cuda

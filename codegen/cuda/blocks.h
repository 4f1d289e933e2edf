// Writes the text of a block kernel (blocks_plan.h).
#pragma once

#include "codegen/cuda/blocks_plan.h"
#include "codegen/cuda/kernel_text.h"

namespace rewire::codegen::cuda {

KernelSource emit_block(const tile::Kernel& kernel, const EntryPoint& entry, const BlockPlan& plan);

}  // namespace rewire::codegen::cuda

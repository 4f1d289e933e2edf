// Writes the text of a kernel that transposes (transposes_plan.h).
#pragma once

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/transposes_plan.h"

namespace rewire::codegen::cuda {

KernelSource emit_transpose(const tile::Kernel& kernel, const EntryPoint& entry, const TransposePlan& plan);

}  // namespace rewire::codegen::cuda

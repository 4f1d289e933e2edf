// Writes kernels that walk tiles with products on tensor cores (walks_plan.h) as text.
#pragma once

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/walks_plan.h"

namespace rewire::codegen::cuda {

KernelSource emit_walk(const tile::Kernel& kernel, const EntryPoint& entry, const WalkPlan& plan);

}  // namespace rewire::codegen::cuda

// Writes the text of a row kernel (rows_plan.h).
#pragma once

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/rows_plan.h"

namespace rewire::codegen::cuda {

KernelSource emit_rows(const tile::Kernel& kernel, const EntryPoint& entry, const RowsPlan& plan);

}  // namespace rewire::codegen::cuda

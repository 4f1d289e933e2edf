// Counts a thread's registers that the values of a row kernel take at once, by its plan's levels and homes.
#pragma once

#include "codegen/cuda/rows_plan.h"

namespace rewire::codegen::cuda {

struct LiveRegisters {
  int arrays = 0;   // alive at once, in registers per element
  int scalars = 0;  // kept between levels; within one level, they come one after another
};
LiveRegisters live_registers(const tile::Kernel& kernel, const RowsPlan& plan);

}  // namespace rewire::codegen::cuda

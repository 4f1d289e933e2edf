// Counts a thread's registers that the values of a row kernel take at once, by its levels and homes.
#pragma once

#include "codegen/cuda/rows_levels.h"

namespace rewire::codegen::cuda {

struct LiveRegisters {
  int arrays = 0;   // alive at once, in registers per element
  int scalars = 0;  // kept between levels; within one level, they come one after another
};
LiveRegisters live_registers(const tile::Kernel& kernel, const RowLevels& levels);

}  // namespace rewire::codegen::cuda

// How many registers of a thread the values of a row kernel take at once, by the levels and homes of its plan.
#pragma once

#include "codegen/cuda/rows_plan.h"

namespace rewire::codegen::cuda {

struct LiveRegisters {
  int arrays = 0;   // alive at once, in registers an element
  int scalars = 0;  // from level to level: those of one level alone come one after the other
};
LiveRegisters live_registers(const tile::Kernel& kernel, const RowsPlan& plan);

}  // namespace rewire::codegen::cuda

// Makes launches of attention calls: binds the tile kernels of codegen/tile/attention.h to views, so heads
// are neither split nor merged in memory.
#pragma once

#include <vector>

#include "codegen/program.h"

namespace rewire::codegen {

/// Emits the launches of an op attention or attention_grad, whose operands and results are f32 or bf16. Buffers
/// that several launches share are temporaries of the program.
std::vector<KernelLaunch> emit_attention(Program& program, const OpCall& call, const WorkGrain& grain);

}  // namespace rewire::codegen

// Makes launches of attention calls: binds the tile kernels of codegen/tile/attention.h to views, so heads
// are neither split nor merged in memory.
#pragma once

#include <span>
#include <vector>

#include "codegen/fuse/token_sums.h"
#include "codegen/program.h"
#include "ir/module.h"

namespace rewire::codegen {

/// Emits the launches of an op attention or attention_grad, whose operands and results are f32 or bf16. Buffers
/// that several launches share are temporaries of the program. `sums`: what a gradient for which sums_tokens()
/// holds writes besides.
std::vector<KernelLaunch> emit_attention(Program& program, const OpCall& call, const WorkGrain& grain,
                                         std::span<const PartialTokenSums> sums = {});

/// Returns whether the kernel of an attention_grad can add up its results over the tokens.
bool sums_tokens(const ir::Function& function, const ir::Op& gradient, const WorkGrain& grain);

}  // namespace rewire::codegen

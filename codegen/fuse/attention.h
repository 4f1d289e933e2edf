// Makes launches of attention calls: binds the tile kernels of codegen/tile/attention.h to views, so heads
// are neither split nor merged in memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/program.h"

namespace rewire::codegen {

/// Emits the forward pass. operands: q [B, H, M, D], k, v [B, H, N, D]; results: o [B, H, M, D], l [B, H, M,
/// 1]. All are f32 or all bf16, except l, which is f32.
std::vector<KernelLaunch> emit_attention(const Program& program, std::span<const View> operands,
                                         std::span<const View> results, double scale,
                                         const std::string& location, const WorkGrain& grain);

/// Emits the gradient. operands: q, k, v, o, l, do; results: dq, dk, dv. Buffers that several launches share
/// are temporaries of the program.
std::vector<KernelLaunch> emit_attention_grad(Program& program, std::span<const View> operands,
                                              std::span<const View> results, double scale,
                                              const std::string& location, const WorkGrain& grain);

}  // namespace rewire::codegen

// Attention calls as launches: the tile programs of codegen/tile/attention.h bound to views, so that heads
// are neither split nor merged in memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/program.h"

namespace rewire::codegen {

/// operands: q [B, H, M, D], k, v [B, H, N, D]; results: o [B, H, M, D], l [B, H, M, 1]. All
/// f32 or all bf16, but l, which is f32.
std::vector<KernelLaunch> emit_attention(const Program& program, std::span<const View> operands,
                                         std::span<const View> results, double scale,
                                         const std::string& location, const WorkGrain& grain);

/// operands: q, k, v, o, l, do; results: dq, dk, dv. What several launches share is a temporary of the
/// program's.
std::vector<KernelLaunch> emit_attention_grad(Program& program, std::span<const View> operands,
                                              std::span<const View> results, double scale,
                                              const std::string& location, const WorkGrain& grain);

}  // namespace rewire::codegen

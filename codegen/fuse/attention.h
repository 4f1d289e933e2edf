// Attention and its gradient as tile programs. One instance is one head of one sample and one tile of
// queries: scores live on chip as [queries of the tile, keys], never as a tensor; operands are read, and
// results written, wherever their views say, so that heads are neither split nor merged in memory.
//
//   forward    S = scale q k^T,  P = exp(S - max S) / sum,  o = P v,  l = max S + log sum          (sums over
//   keys) backward   P = exp(S - l),  D = sum(do o),  dS = P (do v^T - D) scale,  dq = dS k,  dk = dS^T q, dv
//   = P^T do
//
// The gradient of keys and values sums over queries: its instance walks the tiles of queries in order and
// carries dk and dv.
#pragma once

#include <span>
#include <string>

#include "codegen/program.h"

namespace rewire::codegen {

/// operands: q [B, H, M, D], k, v [B, H, N, D]; results: o [B, H, M, D], l [B, H, M, 1].
KernelLaunch emit_attention(const Program& program, std::span<const View> operands,
                            std::span<const View> results, double scale, const std::string& location);

/// operands: q, k, v, o, l, do; results: dq, dk, dv.
KernelLaunch emit_attention_grad(const Program& program, std::span<const View> operands,
                                 std::span<const View> results, double scale, const std::string& location);

}  // namespace rewire::codegen

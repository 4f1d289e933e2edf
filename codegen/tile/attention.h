// Attention as tile programs: softmax(scale q k^T) v and its gradient, without ever holding more than a tile
// of queries times all keys.
//
//   s = scale q k^T    p = softmax(s) along the keys    o = p v    lse = log sum exp s
//   D = rowsum(do o)   dv = p^T do    dp = do v^T    ds = scale p (dp - D)    dq = ds k    dk = ds^T q
//
// The forward pass cuts the queries into tiles. The gradient recomputes p = exp(s - lse); where a head fits
// the chip it is one program a head, else the queries are cut for dq, and the keys for dk and dv, which
// computes s and dp twice. D is computed once: by those that compute dq, which leave it in
// memory for the others. Tiles are cut evenly, so their sizes differ by at most one, and each size is a
// kernel of its own.
//
// `narrow`: p and ds are rounded to bf16 before they are multiplied, as q, k, v and do are in memory, so that
// tensor cores can; softmax and sums stay f32. Tiles are then multiples of 16 tokens, and what remains. The
// gradient has then the keys in rows: what a warp computes of p and ds is what it multiplies next, for dv and
// dk, so that of both ds alone has to be held, for dq.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::codegen::tile {

/// A [batch, head, token, channel] window of an argument, in elements.
struct AttentionView {
  std::int64_t offset = 0;
  std::int64_t batch = 0, head = 0, token = 0, channel = 1;  // strides
};

struct AttentionShape {
  std::int64_t batch = 1, heads = 1, queries = 1, keys = 1, width = 1;
  double scale = 1;
  ir::DType dtype = ir::DType::f32;  // storage of all but lse, which is f32
  AttentionView q, k, v, output;
  AttentionView lse;                   // channel unused
  AttentionView d_output, dq, dk, dv;  // the gradient only
  // The most on chip at once: queries x keys; of a narrow gradient ds, q, k, v and do, or where it is cut
  // these four alone, in rows of 8 elements and 8 more.
  std::int64_t tile_elements = 1 << 16;
  bool narrow = false;  // with a dtype of bf16 only
};

/// Arguments q, k, v, output, lse.
std::vector<Kernel> attention_forward(const AttentionShape& shape);
/// Arguments q, k, v, lse, d_output; output where dq is written; those of dq, dk, dv that the kernel writes;
/// and where there are several kernels delta, which is D as a dense f32 [batch, heads, queries]: those that
/// write dq write it, and stand before those that read it. Bind them by name.
std::vector<Kernel> attention_backward(const AttentionShape& shape);

}  // namespace rewire::codegen::tile

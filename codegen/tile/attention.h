// Attention as tile kernels: softmax(scale q k^T + bias) v and its gradient, without ever holding more than a
// tile of queries times all keys.
//
//   s = scale q k^T + bias    p = softmax(s) along the keys    o = p v    lse = log sum exp s
//   D = rowsum(do o)   dv = p^T do    dp = do v^T    ds = scale p (dp - D)    dq = ds k    dk = ds^T q
//
// The forward pass cuts the queries into tiles. The gradient recomputes p = exp(s - lse). If a head fits on
// chip, it is one program per head. For tensor cores it also is one if k, v and a few queries at once fit, and
// registers hold dk and dv (AttentionShape::streamed_sums). Otherwise the queries are cut for dq, and the
// keys for dk and dv, which computes s and dp twice. D is computed once, by the programs for dq, which leave
// it in memory for the others. Tiles are cut evenly, so their sizes differ by at most one, and each size is a
// kernel of its own.
//
// Causal: the queries are cut into ranges of equal size, each with the keys that its queries see, so of the
// pairs that no query sees few are computed: 3 of 16 with four ranges. A gradient that is one program per
// head becomes one kernel for each range, the last range first: the others add to what dk and dv hold.
// Walks: where more than `walked_tokens` queries or keys do not fit on chip, a narrow kernel walks the other side
// in tiles (attention_walks.h). So no tile is smaller than tensor cores like.
//
// Groups of heads: the kernels that compute dk and dv walk the query heads of a key head as rows.
//
// `narrow`: p and ds are rounded to bf16 before they are multiplied, as q, k, v and do are in memory, so
// that tensor cores can multiply them; softmax and sums stay f32. The exponents are those of two, s log2 e,
// and ds is p (dp - D), of which dq and dk are the scaled products. Tiles are then multiples of 16 tokens, and
// a rest. The gradient then has the keys in rows: the p and ds that a warp computes are operands of its next
// products, for dv and dk. So of both only ds has to be held, for dq.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/tile/tile.h"

namespace rewire::codegen::tile {

/// A [batch, head, token, channel] window of an argument, in elements.
struct AttentionView {
  std::int64_t offset = 0;
  std::int64_t batch = 0, head = 0, token = 0, channel = 1;  // strides
};

struct AttentionShape {
  // Each of `heads` heads of keys and values is read by `groups` heads of queries.
  std::int64_t batch = 1, heads = 1, groups = 1, queries = 1, keys = 1, width = 1, value_width = 1;
  double scale = 1;
  bool causal = false;
  std::int64_t window = 0;           // with causal, the most keys that a query sees; 0: all
  ir::DType dtype = ir::DType::f32;  // storage of all but lse, which is f32
  AttentionView q, k, v, output;
  AttentionView lse;                       // its channel is unused
  AttentionView d_output, dq, dk, dv;      // only of the gradient
  std::optional<AttentionView> bias;       // of [batch, query head, query, key]: its channels are keys
  std::optional<AttentionView> documents;  // of [batch, token] in i32
  // Only of the gradient: sums over the tokens of dq, dk and dv, as rounded to `dtype`, in f32: [batch, head,
  // channel].
  std::optional<AttentionView> dq_sums, dk_sums, dv_sums;
  // The most on chip at once: queries x keys. For a narrow gradient: ds, q, k, v and do, or if it is cut
  // only the last four, with rows of whole 8 elements and 8 more, and lse and D, each as two elements.
  std::int64_t tile_elements = 1 << 16;
  bool narrow = false;           // only with a dtype of bf16
  std::int64_t most_ranges = 8;  // of a causal head
  // Whether dk and dv may be added up in memory, range by range, if a range fits on chip and a head does not.
  bool adds_in_memory = true;
  // For a narrow gradient, the most channels for which registers hold the sums of dk and dv together. For
  // wider heads ds is on chip in the programs for dk and dv too, and p as well if there are more than twice
  // as many channels.
  std::int64_t summed_width = 1 << 16;
  // For a narrow gradient, the most keys, and the most elements of dk (of keys in parts of 64), for which a
  // program can walk the queries with k and v on chip. 0: there is no such program.
  std::int64_t streamed_keys = 0, streamed_sums = 0;
  // For a narrow shape: with more queries or keys, kernels walk tiles. 0: they never do.
  std::int64_t walked_tokens = 0;
};

/// Returns the kernels of the forward pass. Arguments: q, k, v, output, lse, and bias and documents if the
/// shape has them.
std::vector<Kernel> attention_forward(const AttentionShape& shape);
/// Returns whether the gradient is one program for each head, which can also sum dq, dk and dv over the tokens.
bool sums_tokens(const AttentionShape& shape);
/// Returns the kernels of the gradient, in order. Where sums_tokens() holds, there may be the arguments dq_sums,
/// dk_sums and dv_sums. Arguments: q, k, v, lse, d_output, and bias and documents if
/// the shape has them; output if dq is written; those of dq, dk, dv that the kernel writes; and, if others
/// compute dk and dv than dq, delta, which is D as a dense f32 [batch, query heads, queries]. Bind them by
/// name.
std::vector<Kernel> attention_backward(const AttentionShape& shape);

}  // namespace rewire::codegen::tile

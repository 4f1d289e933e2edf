// Attention over tiles of keys (Dao et al., "FlashAttention", 2022, and "FlashAttention-2", 2023): an instance has
// a tile of queries and walks the keys that they see, tile by tile. m, l and o are carried; a new maximum
// scales down what was added before:
//
//   m' = max(m, max s)    a = exp(m - m')    p = exp(s - m')    l' = a l + sum p    o' = a o + p v
//   o  = o / l            lse = m + log l
//
// The gradient is two kernels, without atomics, so every sum has a fixed order:
//   dq       a tile of queries walks the keys:    s = q k^T, dp = do v^T, dq += ds k            3 products
//   dk, dv   a tile of keys walks the queries:    s and dp again, dv += p^T do, dk += ds^T q    4 products
// The first also computes D = rowsum(do o) for the second. Five products would do in one kernel if dq were
// added up in memory: docs/design/cuda.md has the bytes.
//
// Causal: a tile walks only the tiles that it sees or that see it, with a window those within it
// (RowBounds). Tokens that no tile divides leave a short tile (ShortTile). Groups of heads: dk and dv walk the
// tiles of all query heads that read their keys.
#pragma once

#include <vector>

#include "codegen/tile/attention.h"

namespace rewire::codegen::tile {

/// Returns whether kernels that hold all keys would have small tiles.
bool walks_tiles(const AttentionShape& shape);
/// Returns the kernels of a shape for which walks_tiles() holds, with the arguments of attention_forward() and
/// attention_backward().
std::vector<Kernel> walked_forward(const AttentionShape& shape);
std::vector<Kernel> walked_backward(const AttentionShape& shape);

}  // namespace rewire::codegen::tile

// Computes rows that are wide, such as the logits of a large vocabulary, some rows at a time, so that they are
// never held as a whole:
//
//   z = x W;  l = f(z);  dx = g(z) V;  dW = h(z)ᵀ y
//
// becomes, with the rows of x and y cut into chunks i,
//
//   z_i = x_i W;  l = concat f(z_i);  dx = concat g(z_i) V;  dW = Σ h(z_i)ᵀ y_i,  one chunk after the other.
//
// z is a product whose rows are at least kWidened times as wide as those of x. The ops that are chunked are
// all that touch a value of z's size, and all between two of them. They are row by row, or sum over the rows.
// What the wide values are computed from beside z (indices of columns, masks) is computed again in each chunk.
// If another op is among them, or a wide value is a result of the function, the product stays whole.
//
// A chunk of z has at most PassContext::chunk_bytes, and z at least twice that. Sums over rows are added in
// another order, those of 16 bits in f32; a sum of wide rows becomes a product with ones. Each chunk reads and
// writes dW, so chunks should not be small: with c rows it is 8 bytes for 2 c operations.
#pragma once

#include <cstdint>

#include "ir/passes/pass.h"

namespace rewire::ir {

inline constexpr std::int64_t kWidened = 8;

void chunk_rows(Module& module, PassContext& context);

}  // namespace rewire::ir

// Computes f(x, y) in parts if it is only read in parts. So each part is computed in its reader's kernel and
// needs no memory:
//
//   slice_u(f(x, y))          = f(slice_u(x), slice_u(y))
//   slice_u(reshape(f(x, y))) = f(slice_u(reshape(x)), slice_u(reshape(y)))
//
// slice_u takes a part of one axis and all of the others, and f is pointwise. Only slices (of one reshape)
// read f(x, y), and they do not overlap. The same holds for a chain of such ops, each of which only the
// chain reads. The arithmetic stays the same; the ops multiply by the number of parts, up to kMostOps. It
// runs last, because only then each value that is cloned for readers in backward has no other readers.
#pragma once

#include <cstddef>

#include "ir/passes/pass.h"

namespace rewire::ir {

inline constexpr std::size_t kMostOps = 128;

void split_pointwise(Module& module, PassContext& context);

}  // namespace rewire::ir

// f(x, y) that is read in parts alone is computed in parts, so that it stands in the kernels of its readers
// and in no memory:
//
//   slice_u(f(x, y))          = f(slice_u(x), slice_u(y))
//   slice_u(reshape(f(x, y))) = f(slice_u(reshape(x)), slice_u(reshape(y)))
//
// where slice_u takes some of one axis and all of the others, f is pointwise, and nothing else reads f(x, y)
// than slices (of one reshape), which have nothing in common. The same for a chain of such ops, each of which
// is read by the chain alone. As much is computed as before, in as many more ops as there are parts: no more
// than kMostOps of them. It runs last: a value that is cloned for its readers in backward is read by those
// alone only then.
#pragma once

#include <cstddef>

#include "ir/passes/pass.h"

namespace rewire::ir {

inline constexpr std::size_t kMostOps = 128;

void split_pointwise(Module& module, PassContext& context);

}  // namespace rewire::ir

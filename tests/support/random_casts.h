// Networks whose dtypes change anywhere. Some ops are computed in another float type between casts; others
// get a cast to another type and back after them. Products, biases and sums then see operands and results of
// all types.
#pragma once

#include <cstdint>

#include "ir/module.h"

namespace rewire::testing {

/// Changes `forward` but not the types of its arguments, results and joins. The module is verified.
void cast_at_random(ir::Module& module, std::uint64_t seed);

}  // namespace rewire::testing

// Networks whose dtypes change anywhere: some ops are computed in another float type between casts, others
// get a cast there and back behind them. Products, biases and sums then meet operands and results of all
// types.
#pragma once

#include <cstdint>

#include "ir/module.h"

namespace rewire::testing {

/// Changes `forward`; the types of its arguments, results and joins stay. Verified.
void cast_at_random(ir::Module& module, std::uint64_t seed);

}  // namespace rewire::testing

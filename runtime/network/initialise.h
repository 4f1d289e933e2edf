// Draws the first state of a module: each parameter by its Init, from Philox streams named after it, so that
// the numbers depend on (seed, name, shape) only. The plugins' initialise hooks come after this, then loaded
// weights. The state rng.seed starts as the seed itself.
#pragma once

#include <cstdint>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Returns the first state. Throws UserError if the seed exceeds 2^53 (the evaluator holds integers as
/// doubles).
TensorMap initialise(const ir::Module& module, std::uint64_t seed);

}  // namespace rewire::runtime

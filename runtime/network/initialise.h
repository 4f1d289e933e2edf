// Fresh state of a module: every parameter by its Init, drawn from Philox streams named after the parameter,
// so that the numbers depend on (seed, name, shape) only. The plugins' initialise hooks run after this,
// loaded weights after them. The state rng.seed starts as the seed itself.
#pragma once

#include <cstdint>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// UserError if the seed exceeds 2^53 (the evaluator holds integers as doubles).
TensorMap initialise(const ir::Module& module, std::uint64_t seed);

}  // namespace rewire::runtime

// Random tile kernels from a seed, for differential tests: any mix of axes, accesses, reductions, dots,
// carried values and stores that the verifier accepts. They are continuous functions of the inputs with
// magnitudes near 1, so that rounding stays small.
#pragma once

#include <cstdint>

#include "codegen/tile/tile.h"

namespace rewire::test {

codegen::tile::Kernel random_kernel(std::uint64_t seed);

}  // namespace rewire::test

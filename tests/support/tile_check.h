// Compiles tile kernels, runs them on guarded and poisoned memory, and compares what they wrote with the
// interpreter.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "codegen/llvm/jit.h"
#include "tests/support/tile_interpreter.h"

namespace rewire::test {

struct TileInput {
  double low = -2, high = 2;  // uniform; whole numbers for integer arguments
};

struct TileCheck {
  double tolerance = 4e-6;             // of the largest magnitude in the argument
  double floor = 0;                    // smaller magnitudes count as this: what cancelled
  std::vector<TileInput> inputs = {};  // by argument; the default where there is none
  std::string cpu = {};                // "": the host
  std::uint64_t seed = 1;
};

/// How many elements each argument needs.
std::vector<std::int64_t> argument_elements(const codegen::tile::Kernel& kernel);

/// "" if the JIT and the interpreter agree on every argument and no guard was touched; else what differs
/// first. Runs the instances in uneven pieces. Elements that nobody writes must keep their poison.
std::string check_kernel(const codegen::tile::Kernel& kernel, const TileCheck& check = {});

}  // namespace rewire::test

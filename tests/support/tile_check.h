// Runs tile kernels, by the JIT or as the caller likes, on guarded and poisoned memory, and compares what
// they wrote with the interpreter.
#pragma once

#include <cstdint>
#include <functional>
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

/// Runs every instance of a kernel on these arguments, each a pointer to element 0.
using TileRunner = std::function<void(const codegen::tile::Kernel&, const std::vector<void*>&)>;

/// "" if the runner and the interpreter agree on every argument and no guard was touched; else what differs
/// first. Elements that nobody writes must keep their poison. Without a runner: the JIT, the instances in
/// uneven pieces.
std::string check_kernel(const codegen::tile::Kernel& kernel, const TileCheck& check = {},
                         const TileRunner& run = {});

}  // namespace rewire::test

// Runs tile kernels, by the JIT or the caller's runner, on guarded and poisoned memory, and compares the
// written values with the interpreter's.
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
  double floor = 0;                    // smaller magnitudes count as this, after cancellation
  std::vector<TileInput> inputs = {};  // by argument; the default for the others
  std::string cpu = {};                // "": the host
  std::uint64_t seed = 1;
};

/// Returns the number of elements that each argument needs.
std::vector<std::int64_t> argument_elements(const codegen::tile::Kernel& kernel);

/// Runs every instance of a kernel on these arguments, each a pointer to element 0.
using TileRunner = std::function<void(const codegen::tile::Kernel&, const std::vector<void*>&)>;

/// Returns "" if the runner and the interpreter agree on every argument and no guard was touched; else the
/// first difference. Elements that no store writes must keep their poison. Without a runner: the JIT, the
/// instances in uneven pieces.
std::string check_kernel(const codegen::tile::Kernel& kernel, const TileCheck& check = {},
                         const TileRunner& run = {});

}  // namespace rewire::test

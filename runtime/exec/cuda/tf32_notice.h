// One line if most of a program's products leave a GPU's tensor cores idle.
#pragma once

#include <span>
#include <string>

#include "codegen/program.h"

namespace rewire::runtime {

/// Returns that the products are of f32, and which keys would change it, if they are at least half of the
/// multiply-adds of products and convolutions, and those are at least 10^9; else "". `tf32`: the module
/// allows it.
std::string idle_tensor_cores(std::span<const codegen::Program> programs, bool tf32);

}  // namespace rewire::runtime

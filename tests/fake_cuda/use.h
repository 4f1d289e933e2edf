// Lets a test program take the fake libraries for NVIDIA's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/fake_cuda/controls.h"

namespace rewire::fake_cuda {

/// The variables that name each library, and what they must be.
std::vector<std::pair<std::string, std::string>> environment();

/// Sets them in this process; to be called before anything asks for a driver. Returns the one set of
/// controls.
const Controls& use();

}  // namespace rewire::fake_cuda

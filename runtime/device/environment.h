// Environment variables that change results: they make a library run other code, and so compute other bits.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace rewire::runtime {

using Environment = std::map<std::string, std::string>;  // the variables that are set, by name

/// Returns the variables of oneDNN (the instructions it may use, f32 arithmetic), OpenBLAS (the processor it
/// assumes) and the C library (instructions its functions avoid).
Environment host_environment();
/// Returns host_environment() and the variables of cuBLAS and cuBLASLt (TF32 and emulation that no recipe
/// asked for, workspace).
Environment device_environment();

/// Returns the names of all of these variables, the host's first.
std::vector<std::string> recorded_variables();

}  // namespace rewire::runtime

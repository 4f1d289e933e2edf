// The environment's say in what is computed: variables that make a library run other code, and so compute
// other bits.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace rewire::runtime {

using Environment = std::map<std::string, std::string>;  // what is set, by name

/// Of oneDNN (the instructions that it may use, how f32 may be computed), OpenBLAS (the processor that it
/// takes this one for) and the C library (instructions that its functions do without).
Environment host_environment();
/// Of cuBLAS and cuBLASLt (TF32 and emulation that nobody asked for in a recipe, work space), beside the
/// host's.
Environment device_environment();

/// The names of all of these variables, the host's first.
std::vector<std::string> recorded_variables();

}  // namespace rewire::runtime

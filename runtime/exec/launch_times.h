// What the launches of a program took, those of one code together.
#pragma once

#include <vector>

#include "codegen/program.h"
#include "runtime/exec/engine.h"

namespace rewire::runtime {

/// `seconds`: of each launch. By descending time.
std::vector<LaunchTime> launch_times(const codegen::Program& program, const std::vector<double>& seconds);

}  // namespace rewire::runtime

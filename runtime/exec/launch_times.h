// What the launches of a program took, those of one code together.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/program.h"
#include "runtime/exec/engine.h"

namespace rewire::runtime {

/// What the kernel of a launch takes, where it is a GPU's.
using UseOf = std::function<std::optional<KernelUse>(const codegen::Launch&)>;

/// `seconds`: of each launch. `labels`: what a launch is called instead of the program's name for it, if it
/// is not ""; launches of one label are one row. By descending time.
std::vector<LaunchTime> launch_times(
    const codegen::Program& program, const std::vector<double>& seconds,
    const std::vector<std::string>& labels = {},
    const UseOf& use_of = [](const codegen::Launch&) { return std::nullopt; });

}  // namespace rewire::runtime

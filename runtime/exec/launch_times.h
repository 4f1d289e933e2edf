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

/// What a device knows of a launch beside the program.
struct LaunchLabel {
  std::string name;  // instead of the program's, if it is not ""
  std::optional<LaunchProducts> products = std::nullopt;
};

/// `seconds`: of each launch. `labels`: of each, or none; launches of one name are one row. By descending
/// time.
std::vector<LaunchTime> launch_times(
    const codegen::Program& program, const std::vector<double>& seconds,
    const std::vector<LaunchLabel>& labels = {},
    const UseOf& use_of = [](const codegen::Launch&) { return std::nullopt; });

}  // namespace rewire::runtime

// The times of a program's launches, added up for launches of one code.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/program.h"
#include "runtime/exec/engine.h"

namespace rewire::runtime {

/// Returns the resources of a launch's kernel, if it is a GPU's.
using UseOf = std::function<std::optional<KernelUse>(const codegen::Launch&)>;

/// A device's facts about a launch, besides the program's.
struct LaunchLabel {
  std::string name;  // replaces the program's, unless ""
  std::optional<LaunchProducts> products = std::nullopt;
};

/// Returns the times in descending order. `seconds` are by launch; `labels` too, or empty. Launches of one
/// name are one row.
std::vector<LaunchTime> launch_times(
    const codegen::Program& program, const std::vector<double>& seconds,
    const std::vector<LaunchLabel>& labels = {},
    const UseOf& use_of = [](const codegen::Launch&) { return std::nullopt; });

}  // namespace rewire::runtime

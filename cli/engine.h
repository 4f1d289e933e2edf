// --device and --engine: what computes a command's network.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace rewire::cli {

struct EngineRequest {
  std::string device, engine;  // "": not said
};
/// Both options. `of_run`: a run that goes on has chosen before.
void declare_engine(EngineRequest& request, Options& options, bool of_run = false);
/// --device alone, for a command that always compiles.
void declare_device(EngineRequest& request, Options& options);

/// --override-kernel, for what an engine of --device cuda computes with.
void declare_overrides(std::vector<std::string>& overrides, Options& options);

/// The name for runtime::make_engine; `recorded` is that of a run's beginning, if it has begun. UserError for
/// an engine that is not of the device, and where this machine lacks what the device needs.
std::string engine_of(const EngineRequest& request, const std::string& recorded = "");

}  // namespace rewire::cli

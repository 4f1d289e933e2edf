// --device and --engine: where and how a command's network is computed.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace rewire::cli {

struct EngineRequest {
  std::string device, engine;  // "": not given

  /// Returns whether --device is a GPU.
  bool on_gpu() const { return device.starts_with("cuda"); }
  /// Returns what names one GPU, as 1 of cuda:1; "": nothing does.
  std::string one_gpu() const { return device.starts_with("cuda:") ? device.substr(5) : ""; }
};
/// Declares both options. `of_run`: a resumed run has chosen before.
void declare_engine(EngineRequest& request, Options& options, bool of_run = false);
/// Declares --device alone, for a command that always compiles.
void declare_device(EngineRequest& request, Options& options);

/// Declares --override-kernel, for kernels of --device cuda.
void declare_overrides(std::vector<std::string>& overrides, Options& options);

/// Returns the name for runtime::make_engine, for another machine: does not ask whether this one has what it needs.
std::string engine_named(const EngineRequest& request, const std::string& recorded = "");
/// Returns the name for runtime::make_engine, and makes this process compute on the GPU that --device names. `recorded`
/// is the engine that a resumed run began with. Throws UserError if the engine does not belong to the device, or if this
/// machine lacks what the device needs.
std::string engine_of(const EngineRequest& request, const std::string& recorded = "");

}  // namespace rewire::cli

// One page about a network and its training step: data as JSON (docs/guide/explore.md), and the page that shows them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "ir/module.h"
#include "runtime/exec/ceilings.h"
#include "runtime/exec/engine.h"
#include "runtime/explore/stages.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

/// What is shown. The program is the CPU's; `gpu` is the same step as it is cut for a GPU, whose code stands beside that of
/// kernels that compute the same.
struct ExplorerSubject {
  std::string model, program;
  std::int64_t batch = 0;
  std::vector<PluginHandle> plugins;
  ir::Module original, rewritten;  // `forward` before and after the plugins
  codegen::Compiled step;
  const PassLog* passes = nullptr;  // of the step; required
  std::string gpu_name;             // "sm_90"
  int gpu_arch = 90;
  codegen::Program gpu;
  bool ptx = false;                  // also PTX, by NVRTC
  bool machine_code = true;          // also LLVM IR and assembly, for which every kernel is compiled
  ChoiceRecord choices;              // made for the step
  std::vector<LaunchTime> times;     // of the step, or empty
  std::optional<Ceilings> ceilings;  // with them
};

/// Compiles the code of every kernel of the step for its text, unless that is left out, on `threads` threads. UserError with `ptx` where NVRTC is
/// missing.
nlohmann::ordered_json explorer_json(const ExplorerSubject& subject, int threads);

}  // namespace rewire::runtime

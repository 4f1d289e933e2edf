// Data as JSON for one page about a network and its training step (docs/guide/explore.md).
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "ir/module.h"
#include "runtime/exec/ceilings.h"
#include "runtime/exec/engine.h"
#include "runtime/explore/join_formula.h"
#include "runtime/explore/stages.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

/// Returns a plugin's parameters as formulas: what the user typed, and its MathML. The name of a formula is its
/// parameter's. Empty for a plugin whose parameters are no formulas.
using PluginNotation = std::function<std::vector<Formula>(const Plugin&)>;

/// The network and step to show. The program is the CPU's; `gpu` is the same step cut for a GPU, whose code
/// is shown beside the CPU kernels that compute the same.
struct ExplorerSubject {
  std::string model, program;
  std::int64_t batch = 0;
  std::vector<PluginHandle> plugins;
  PluginNotation notation = {};    // of the plugins; may be empty
  ir::Module original, rewritten;  // `forward` before and after the plugins
  codegen::Compiled step;
  const PassLog* passes = nullptr;  // passes of the step; required
  std::string gpu_name;             // "sm_90"
  int gpu_arch = 90;
  codegen::Program gpu;
  bool ptx = false;                  // also PTX, by NVRTC
  bool machine_code = true;          // also LLVM IR and assembly, for which every kernel is compiled
  ChoiceRecord choices;              // made for the step
  std::vector<LaunchTime> times;     // times of the step, or empty
  std::optional<Ceilings> ceilings;  // shown with the times
};

/// Returns the page's data. Compiles every kernel of the step on `threads` threads to show its code, unless
/// that is left out. Throws UserError if `ptx` is set and NVRTC is missing.
nlohmann::ordered_json explorer_json(const ExplorerSubject& subject, int threads);

}  // namespace rewire::runtime

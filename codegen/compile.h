// One function of a module as launches for a machine: every pass of the way, in two lists that are read from
// top to bottom. The passes over the IR are those of ir/passes/pipeline.cpp, those behind them of
// compile.cpp. Engines, `rewire dump` and `rewire bench` all come this way, so that what is shown is what
// runs.
#pragma once

#include <functional>

#include "codegen/program.h"
#include "ir/passes/pass.h"

namespace rewire::codegen {

/// What the passes ask of the machine that a program is for. The defaults are a CPU's.
struct Target {
  FuseOptions fuse = {};  // how kernels are cut, and what a library computes in their place
  ir::RecomputeCost recompute = {};
  /// How Fourier transforms are computed; empty: they stay ops.
  std::function<ir::FourierWay(const ir::FourierRows&)> fourier = {};
  /// Whether the launches can run there. If not it has changed `fuse`, and they are made again. Empty: they
  /// can.
  std::function<bool(const Program&, FuseOptions& fuse)> accepts = {};
  /// Cuts calls to what their library takes; empty: it takes them.
  std::function<void(Program&)> fit_calls = {};
};

struct Compiled {
  ir::Module module;  // with the function alone, after the passes over the IR
  Program program;
};

/// Both lists. `fourier` and `recompute` of the context are the target's; what it leaves out may be a step of
/// the lowering too (lowering_steps.h), and what it is told of is every pass that changed something.
Compiled compile(const ir::Module& module, const ir::Function& function, const Target& target,
                 ir::PassContext& context);

}  // namespace rewire::codegen

// Compiles one function of a module to launches for a machine. Two lists of passes do it, each read from top
// to bottom: the passes over the IR (ir/passes/pipeline.cpp), then the passes of compile.cpp. Engines,
// `rewire dump` and `rewire bench` all compile this way, so what is shown is what runs.
#pragma once

#include <functional>

#include "codegen/program.h"
#include "ir/passes/pass.h"

namespace rewire::codegen {

/// A target machine's settings for the passes. The defaults are a CPU's.
struct Target {
  FuseOptions fuse = {};  // how kernels are cut, and what a library computes instead
  ir::RecomputeCost recompute = {};
  /// The most that a chunk of wide rows has (ir/passes/chunk_rows.h), of which two live at a time; 0: rows stay
  /// whole.
  std::int64_t chunk_bytes = 32 << 20;
  /// Chooses how a Fourier transform is computed. Empty: transforms stay ops.
  std::function<ir::FourierWay(const ir::FourierRows&)> fourier = {};
  /// Empty: every convolution is of f32.
  ir::NarrowConvolution narrow_convolution = {};
  /// Returns whether the launches can run on the machine. If not, it has changed `fuse`, and they are made
  /// again. Empty: they can run.
  std::function<bool(const Program&, FuseOptions& fuse)> accepts = {};
  /// Rewrites calls to the forms that their library takes. Empty: the library takes them all.
  std::function<void(Program&)> fit_calls = {};
};

struct Compiled {
  ir::Module module;  // the function alone, after the passes over the IR
  Program program;
};

/// Runs both lists. Sets the context's fields about the backend to the target's. The context may leave out
/// steps of the lowering too (lowering_steps.h), and receives every pass that changed something.
Compiled compile(const ir::Module& module, const ir::Function& function, const Target& target,
                 ir::PassContext& context);

}  // namespace rewire::codegen

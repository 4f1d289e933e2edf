// Lowers a network's training step for display, for dump and explore.
#pragma once

#include "codegen/compile.h"
#include "codegen/cuda/emit.h"
#include "ir/passes/pass.h"
#include "runtime/exec/make_engine.h"
#include "runtime/network/network.h"

namespace rewire::runtime {

/// Returns the program of a training step: "step", or "accumulate" with train.accumulate.
const char* step_program(const Network& network);
/// Returns a module with only the step program of `forward`, before any pass.
ir::Module step_module(const Network& network, ir::Module forward);
/// Returns the target of a GPU, which need not be present. Fourier transforms follow `choices`, to which the
/// target refers.
codegen::Target gpu_target(const codegen::cuda::DeviceTarget& gpu, const ChoiceOptions& choices);
/// Lowers a step for a machine that need not be present, by `choices` and else by the cost model. `made`
/// receives the choices made.
codegen::Compiled lower_step(const ir::Module& module, const codegen::Target& target,
                             const ChoiceOptions& choices, ir::PassContext& context,
                             ChoiceRecord* made = nullptr);

}  // namespace rewire::runtime

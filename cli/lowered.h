// A network's training step, lowered as it is shown: what dump and explore have in common.
#pragma once

#include "codegen/compile.h"
#include "codegen/cuda/emit.h"
#include "ir/passes/pass.h"
#include "runtime/exec/make_engine.h"
#include "runtime/network/network.h"

namespace rewire::cli {

/// Of a training step: "step", or with train.accumulate "accumulate".
const char* step_program(const runtime::Network& network);
/// The program of a `forward` as it is computed, alone, before any pass.
ir::Module step_module(const runtime::Network& network, ir::Module forward);
/// A GPU that need not be there, with the choices' ways to compute Fourier transforms; it refers to them.
codegen::Target gpu_target(const codegen::cuda::DeviceTarget& gpu, const runtime::ChoiceOptions& choices);
/// For a machine that need not be there: by the cost model, but for what the choices name. `made`: takes what was chosen.
codegen::Compiled lower_step(const ir::Module& module, const codegen::Target& target,
                             const runtime::ChoiceOptions& choices, ir::PassContext& context,
                             runtime::ChoiceRecord* made = nullptr);

}  // namespace rewire::cli

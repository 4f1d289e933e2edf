#include "cli/lowered.h"

#include <vector>

#include "programs/programs.h"
#include "runtime/exec/cuda/tune/fourier_choices.h"

namespace rewire::cli {

const char* step_program(const runtime::Network& network) {
  return network.recipe.train.accumulate == 1 ? "step" : "accumulate";
}

ir::Module step_module(const runtime::Network& network, ir::Module forward) {
  programs::add_step_program(forward, runtime::train_options(network.recipe, 1));
  const std::string_view program = step_program(network);
  std::erase_if(forward.functions, [&](const ir::Function& function) { return function.name != program; });
  forward.drop_unused_parameters();
  return forward;
}

codegen::Target gpu_target(const codegen::cuda::DeviceTarget& gpu, const runtime::ChoiceOptions& choices) {
  codegen::Target target = codegen::cuda::machine(gpu);
  target.fourier = [&](const ir::FourierRows& rows) { return runtime::fourier_way(choices.given, rows); };
  return target;
}

codegen::Compiled lower_step(const ir::Module& module, const codegen::Target& target,
                             const runtime::ChoiceOptions& choices, ir::PassContext& context,
                             runtime::ChoiceRecord* made) {
  runtime::Tuner tuner = runtime::make_tuner(runtime::engine_names().front(), choices);
  context.training = true;
  context.chooser = &tuner;
  codegen::Compiled compiled = codegen::compile(module, module.functions.front(), target, context);
  if (made != nullptr) *made = tuner.record();
  return compiled;
}

}  // namespace rewire::cli

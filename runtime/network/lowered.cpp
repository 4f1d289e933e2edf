#include "runtime/network/lowered.h"

#include <vector>

#include "programs/programs.h"
#include "runtime/exec/tune/fourier_way.h"
#include "runtime/exec/tune/tune_keys.h"

namespace rewire::runtime {

const char* step_program(const Network& network) {
  return network.recipe.train.shard_batches() == 1 ? "step" : "accumulate";
}

ir::Module step_module(const Network& network, ir::Module forward) {
  programs::add_step_program(forward, train_options(network.recipe, 1));
  const std::string_view program = step_program(network);
  std::erase_if(forward.functions, [&](const ir::Function& function) { return function.name != program; });
  forward.drop_unused_parameters();
  return forward;
}

codegen::Target gpu_target(const codegen::cuda::DeviceTarget& gpu, const ChoiceOptions& choices) {
  codegen::Target target = codegen::cuda::machine(gpu);
  target.fourier = [&](const ir::FourierRows& rows) { return fourier_way(choices.given, rows); };
  return target;
}

codegen::Compiled lower_step(const ir::Module& module, const codegen::Target& target,
                             const ChoiceOptions& choices, ir::PassContext& context, ChoiceRecord* made) {
  Tuner tuner = make_tuner(engine_names().front(), choices);
  context.chooser = &tuner;
  codegen::Target tuned_target = target;
  tune(tuned_target.fuse.grain, choices.given);
  codegen::Compiled compiled = codegen::compile(module, module.functions.front(), tuned_target, context);
  if (made != nullptr) *made = tuner.record();
  return compiled;
}

}  // namespace rewire::runtime

// One run on the compiling engine; see jit_check.h.
#include "tests/runtime_jit/jit_check.h"

namespace rewire::testing {

using runtime::TensorMap;

JitRun run_jit(const ir::Module& module, const std::vector<ir::Tensor>& inputs, const ir::EvalState& state,
               bool fuse, int threads, bool tables) {
  ir::Module trained = module;
  trained.function("main").trains = state.training;
  runtime::JitEngineOptions options;
  options.threads = threads;
  options.fuse = fuse;
  options.optimise = fuse;  // unfused kernels are many, and it is our own code that is looked at
  options.tables = tables;
  options.check_memory = true;
  const auto engine = runtime::make_jit_engine(trained, options);
  for (const auto& [name, tensor] : state.tensors) engine->write_state(name, runtime::to_host(tensor));
  const ir::Function& function = module.function("main");
  TensorMap arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    arguments.emplace(function.arguments[i].name, runtime::to_host(inputs[i]));
  }
  const TensorMap outputs = engine->run("main", arguments);
  JitRun run;
  for (const ir::Argument& result : function.results)
    run.results.push_back(runtime::to_double(outputs.at(result.name)));
  for (const auto& [name, tensor] : state.tensors)
    run.state.emplace(name, runtime::to_double(engine->read_state(name)));
  run.report = engine->report();
  return run;
}

}  // namespace rewire::testing

// The rows of the engines that compute on the CPU.
#include "runtime/exec/engine_row.h"

#include <chrono>

#include "codegen/llvm/jit.h"
#include "runtime/exec/benchmark.h"
#include "runtime/exec/cpu/product_choices.h"

namespace rewire::runtime {
namespace {

std::unique_ptr<JitEngine> open_jit(const ir::Module& module, const EngineOptions& options) {
  JitEngineOptions jit;
  jit.threads = options.threads;
  jit.check_memory = options.check_memory;
  jit.cache_directory = options.cache_directory;
  jit.choices = options.choices;
  jit.others = options.others;
  return make_jit_engine(module, jit);
}

/// Returns a trial timed by the host's clock on random inputs.
Trial make_jit_trial(const ir::Module& module, const EngineOptions& options) {
  const std::shared_ptr<Engine> engine = open_jit(module, options);
  engine->prepare("trial");
  const auto inputs = std::make_shared<const TensorMap>(
      random_inputs(module.function("trial"), [](std::string_view) { return 0; }));
  return {[engine, inputs] {
    const auto start = std::chrono::steady_clock::now();
    engine->run("trial", *inputs);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }};
}

EngineFacts cpu_facts() {
  return {codegen::host_cpu_description(), built_with(), host_environment()};
}

void choose_on_cpu(const ir::Module& module, const std::vector<std::string>& functions,
                   const EngineOptions& options, Tuner& tuner) {
  // On CPUs where our products were measured, the cost model answers as timing would (docs/design/cpu.md).
  if (codegen::prefers_own_products() && !tuner.is_any_given(kProductChoice)) return;
  choose_products(module, functions, options.cache_directory, tuner);
}

}  // namespace

const EngineRow kJitEngineRow{.name = "jit",
                              .on_cpu = true,
                              .open = open_jit,
                              .facts = cpu_facts,
                              .make_trial = make_jit_trial,
                              .choose_late = choose_on_cpu};
const EngineRow kEvaluatorEngineRow{.name = "evaluator", .on_cpu = true, .facts = cpu_facts};

}  // namespace rewire::runtime

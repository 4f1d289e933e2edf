#include "runtime/network/explored.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "codegen/cuda/emit.h"
#include "programs/programs.h"
#include "runtime/device/process.h"
#include "runtime/exec/benchmark.h"
#include "runtime/network/lowered.h"
#include "runtime/network/weights.h"

namespace rewire::runtime {
namespace {

constexpr int kProfileRuns = 5;

void profile_step(const Network& network, const ir::Module& module, ExplorerSubject& subject) {
  const std::string engine = engine_names().front();
  const int threads = static_cast<int>(network.recipe.train.threads);
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  const auto jit = make_compiling_engine(engine, module, {.threads = threads});
  // Plugins initialise their weights in a module that has `forward`.
  const ir::Module forward = training_module(network, network.recipe.train.shard_batch());
  start_state(*jit, module, fresh_weights(forward, network.plugins, seed), seed);
  const ir::Function& step = module.functions.front();
  const auto categories = [&](std::string_view input) { return programs::categories(module, input); };
  subject.times = jit->profile(step.name, random_inputs(step, categories), kProfileRuns);
  subject.ceilings = measure_ceilings(engine, ir::DType::f32, false, threads);
}

}  // namespace

nlohmann::ordered_json explored(const NetworkRequest& request, const ExploreOptions& options,
                                const std::function<void(const std::string& stage)>& began) {
  const auto stage = [&](const char* what) { began(fmt::format("{}: {}", request.model, what)); };
  stage("rewriting the network");
  const Network network = resolve_network(request);
  const std::int64_t batch = network.recipe.train.shard_batch();
  ExplorerSubject subject;
  subject.model = request.model;
  subject.program = step_program(network);
  subject.batch = batch;
  subject.plugins = network.plugins;
  subject.notation = options.notation;
  subject.rewritten = rewritten_module(network, batch);  // also checks the plugins
  subject.original = original_module(network, batch);
  const ir::Module module = step_module(network, training_module(network, batch));
  const ChoiceOptions choices{{}, false};
  ir::PassContext context;
  PassLog passes(context, module);
  stage("lowering the step");
  subject.passes = &passes;
  subject.step = lower_step(module, {}, choices, context, &subject.choices);
  subject.gpu_name = options.arch;
  subject.gpu_arch = std::stoi(options.arch.substr(3));
  subject.ptx = options.ptx;
  subject.machine_code = options.machine_code;
  stage("lowering the step for a GPU");
  ir::PassContext gpu_context;
  const codegen::Target target = gpu_target(codegen::cuda::device_target(subject.gpu_arch), choices);
  subject.gpu = lower_step(module, target, choices, gpu_context).program;
  if (options.profile) {
    stage("timing the launches");
    profile_step(network, module, subject);
  }
  stage(options.machine_code ? "compiling the kernels" : "reading the stages");
  return explorer_json(subject, usable_cores());
}

}  // namespace rewire::runtime

#include "cli/bench_network.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/memory.h"
#include "programs/programs.h"
#include "runtime/device/cuda/device.h"
#include "runtime/exec/make_engine.h"
#include "runtime/network/weights.h"

namespace rewire::cli {
namespace {

/// `data`: whose images a step takes, or null.
Bench make_bench(const BenchRequest& request, const runtime::Network& network,
                 const runtime::DataFeed* data) {
  runtime::Recipe recipe = network.recipe;
  if (request.batch > 0) recipe.train.batch = request.batch;
  const runtime::RecipeTrain& train = recipe.train;
  const programs::TrainOptions options = runtime::train_options(recipe, 1);
  const std::int64_t batch = train.shard_batch();
  const bool infers = request.mode == "infer";
  Bench bench{
      infers ? runtime::computed_module(network, batch) : runtime::training_module(network, batch), {}, 0};
  bench.images = network.from_file && !network.from_file->any_batch ? network.recipe.train.batch : batch;
  if (infers) {
    bench.programs.push_back(timed(bench.module, "forward", 1));
    return bench;
  }
  programs::add_step_program(bench.module, options);
  for (const char* program : {"step", "accumulate"})
    if (data != nullptr) data->take_bytes(bench.module, program);
  bench.images *= train.shard_batches();
  if (train.shard_batches() == 1) {
    bench.programs.push_back(timed(bench.module, "step", 1));
    return bench;
  }
  bench.programs.push_back(timed(bench.module, "accumulate", train.shard_batches()));
  for (std::int64_t shard = 0; shard < options.shards && options.shards > 1; ++shard) {
    const std::string fold = programs::fold_behind(shard);
    const auto same = std::ranges::find(bench.programs, fold, &runtime::TimedProgram::function);
    if (same != bench.programs.end())
      ++same->times;
    else
      bench.programs.push_back(timed(bench.module, fold, 1));
  }
  bench.programs.push_back(timed(bench.module, "apply", 1));
  return bench;
}

std::vector<std::string> program_names(const std::vector<runtime::TimedProgram>& programs) {
  std::vector<std::string> names = {"refresh_first", "refresh"};  // if the optimizer has them
  for (const runtime::TimedProgram& program : programs) names.push_back(program.function);
  return names;
}

/// Times stages: each lasts from the previous stage(), or from the construction, to its own stage().
class Stages {
 public:
  void stage(const std::string& name) {
    const auto now = std::chrono::steady_clock::now();
    stages_.push_back({name, std::chrono::duration<double>(now - std::exchange(began_, now)).count()});
  }
  std::vector<TraceStage> done() && { return std::move(stages_); }

 private:
  std::vector<TraceStage> stages_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

nlohmann::ordered_json to_json(const runtime::LaunchProducts& products) {
  return {{"calls", products.calls},
          {"batch", products.batch},
          {"m", products.m},
          {"n", products.n},
          {"k", products.k},
          {"a_transposed", products.a_transposed},
          {"b_transposed", products.b_transposed},
          {"a_repeats", products.a_repeats},
          {"b_repeats", products.b_repeats},
          {"dtype", ir::dtype_name(products.dtype)},
          {"result", ir::dtype_name(products.result)},
          {"tf32", products.tf32}};
}

}  // namespace

runtime::TimedProgram timed(const ir::Module& module, const std::string& name, std::int64_t times) {
  const ir::Function& function = module.function(name);
  const auto categories = [&](std::string_view input) { return programs::categories(module, input); };
  return {name, runtime::random_inputs(function, categories), times};
}

Prepared prepare(const BenchRequest& request) {
  Stages stages;
  runtime::Network network = runtime::resolve_network(request.network);
  stages.stage("recipe and plugins");
  const std::string name = engine_of(request.engine);
  std::unique_ptr<BenchData> data;
  if (request.data) {
    runtime::Recipe recipe = network.recipe;
    if (request.batch > 0) recipe.train.batch = request.batch;
    data = std::make_unique<BenchData>(network, recipe, name);
    stages.stage("data");
  }
  Bench bench = make_bench(request, network, data ? &data->feed : nullptr);
  stages.stage("programs");
  runtime::require_precision(name, bench.module);
  runtime::Tuner tuner = runtime::make_tuner(name, choice_options(request.choices));
  runtime::make_choices(bench.module, program_names(bench.programs), tuner);
  stages.stage("choices");
  runtime::cuda::forget_device_memory_peak();  // so that the peak leaves out the memory of candidates
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  const auto threads = static_cast<int>(request.threads > 0 ? request.threads : network.recipe.train.threads);
  std::unique_ptr<runtime::JitEngine> engine = runtime::make_compiling_engine(
      name, bench.module, {threads, tuner.record(), runtime::read_kernel_overrides(request.overrides)});
  runtime::start_state(*engine, bench.module, runtime::fresh_weights(bench.module, network.plugins, seed),
                       seed);
  stages.stage("engine and weights");
  if (!request.trace.empty()) {  // otherwise the first run compiles
    for (const runtime::TimedProgram& program : bench.programs) {
      engine->prepare(program.function);
      stages.stage("compile " + program.function);
    }
  }
  return {std::move(network), std::move(data),   std::move(bench),        name, threads,
          tuner.record(),     std::move(engine), std::move(stages).done()};
}

nlohmann::ordered_json to_json(const BenchRequest& request, const BenchResult& result) {
  nlohmann::ordered_json json = {{"images_per_s", static_cast<double>(result.images) / result.fed.median},
                                 {"step_ms", result.fed.median * 1e3},
                                 {"fastest_step_ms", result.fed.fastest * 1e3},
                                 {"tf32", result.tf32},
                                 {"peak_mb", megabytes(result.peak_bytes)},
                                 {"arena_mb", megabytes(result.engine.arena_bytes)},
                                 {"state_mb", megabytes(result.engine.state_bytes)},
                                 {"packed_mb", megabytes(result.engine.packed_bytes)},
                                 {"device_mb", megabytes(result.engine.device_bytes)},
                                 {"compile_s", result.engine.compile_seconds},
                                 {"kernels", result.engine.kernels},
                                 {"unique_kernels", result.engine.unique_kernels},
                                 {"cache_hits", result.engine.cache_hits}};
  if (result.refresh) {
    json["refresh_ms"] = result.refresh->median * 1e3;
    json["refresh_period"] = result.refresh_period;
  }
  if (result.resident) {
    json["resident_step_ms"] = result.resident->median * 1e3;
    json["fastest_resident_step_ms"] = result.resident->fastest * 1e3;
  }
  if (result.data) json["data"] = to_json(*result.data);
  if (!result.choices.made().empty()) json["choices"] = runtime::to_json(result.choices);
  if (result.ceilings) {
    json["ceilings"] = {{"copy_gb_s", result.ceilings->bytes_per_second * 1e-9},
                        {"gemm_gflop_s", result.ceilings->flops_per_second * 1e-9}};
  }
  if (!request.profile && !request.kernels) return json;
  json["profile"] = nlohmann::ordered_json::array();
  for (const runtime::LaunchTime& time : result.profile) {
    json["profile"].push_back({{"name", time.name},
                               {"launches", time.launches},
                               {"ms", time.seconds * 1e3},
                               {"bytes", time.bytes},
                               {"flops", time.flops}});
    if (time.products) json["profile"].back()["products"] = to_json(*time.products);
    if (!time.use) continue;
    json["profile"].back()["registers"] = time.use->registers;
    json["profile"].back()["spill_bytes"] = time.use->spill_bytes;
    json["profile"].back()["shared_bytes"] = time.use->shared_bytes;
  }
  return json;
}

}  // namespace rewire::cli

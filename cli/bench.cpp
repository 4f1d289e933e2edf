// rewire bench: how fast a network trains or infers, and where the time goes.
#include <fmt/format.h>

#include <algorithm>

#include "cli/choices.h"
#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/json.h"
#include "cli/network.h"
#include "runtime/device/process.h"
#include "runtime/exec/benchmark.h"
#include "runtime/exec/make_engine.h"
#include "runtime/train/program.h"
#include "runtime/train/weights.h"

namespace rewire::cli {
namespace {

constexpr std::int64_t kWarmUp = 2;

struct Request {
  NetworkRequest network;
  ChoiceRequest choices;
  std::string mode = "train";
  std::int64_t batch = 0, steps = 20, threads = 0;
  bool profile = false, json = false;
  EngineRequest engine;
  std::vector<std::string> overrides;
};

void declare(Request& request, Options& options) {
  declare_network(request.network, options);
  options.choice("--mode", request.mode, {"train", "infer"},
                 "train: optimizer steps; infer: the forward program");
  options.integer("--batch", request.batch, 1,
                  "images a batch; without it the recipe's train.batch, or the module's own");
  options.integer("--steps", request.steps, 1, "steps that are timed, after 2 that are not");
  declare_device(request.engine, options);
  declare_overrides(request.overrides, options);
  options.integer("--threads", request.threads, 1, "that compute; without it the recipe's train.threads");
  declare_choices(request.choices, options);
  options.flag(
      "--profile", request.profile,
      "also each kernel and call: the best time of --steps runs in which every launch runs alone, and "
      "what it moves and computes in it");
  options.flag("--json", request.json, "the result as JSON");
}

struct Result {
  std::int64_t images = 0;  // a step
  double median_seconds = 0, fastest_seconds = 0;
  std::int64_t peak_bytes = 0;
  runtime::EngineReport engine;
  std::vector<runtime::LaunchTime> profile;
  runtime::ChoiceRecord choices;
};

struct Bench {
  ir::Module module;
  std::vector<runtime::TimedProgram> programs;
  std::int64_t images = 0;
};

runtime::TimedProgram timed(const ir::Module& module, const std::string& name, std::int64_t times) {
  const ir::Function& function = module.function(name);
  const ir::Function& forward = module.function("forward");
  const ir::Value logits = forward.result("logits");
  return {name, runtime::random_inputs(function, logits ? forward.type(logits).shape.back() : 1), times};
}

Bench make_bench(const Request& request, const Network& network) {
  const runtime::RecipeTrain& train = network.recipe.train;
  const std::int64_t batch = request.batch > 0 ? request.batch : train.batch;
  Bench bench{computed_module(network, batch), {}, 0};
  const ir::Function& forward = bench.module.function("forward");
  bench.images = forward.type(forward.arguments[0].value).shape[0];
  if (request.mode == "infer") {
    bench.programs.push_back(timed(bench.module, "forward", 1));
    return bench;
  }
  runtime::add_step_program(bench.module, runtime::train_options(network.recipe, 1));
  bench.images *= train.accumulate;
  if (train.accumulate == 1) {
    bench.programs.push_back(timed(bench.module, "step", 1));
  } else {
    bench.programs.push_back(timed(bench.module, "accumulate", train.accumulate));
    bench.programs.push_back(timed(bench.module, "apply", 1));
  }
  return bench;
}

std::vector<std::string> names_of(const std::vector<runtime::TimedProgram>& programs) {
  std::vector<std::string> names;
  for (const runtime::TimedProgram& program : programs) names.push_back(program.function);
  return names;
}

Result measure(const Request& request, const Network& network) {
  Bench bench = make_bench(request, network);
  const std::string name = engine_of(request.engine);
  runtime::Tuner tuner = runtime::make_tuner(name, choice_options(request.choices));
  runtime::make_choices(bench.module, names_of(bench.programs), tuner);
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  const auto threads = static_cast<int>(request.threads > 0 ? request.threads : network.recipe.train.threads);
  const std::unique_ptr<runtime::JitEngine> engine = runtime::make_compiling_engine(
      name, bench.module, threads, tuner.record(), runtime::read_kernel_overrides(request.overrides));
  runtime::start_state(*engine, bench.module, runtime::fresh_weights(bench.module, network.plugins, seed),
                       seed);
  std::vector<double> seconds = runtime::time_rounds(*engine, bench.programs, kWarmUp, request.steps);
  std::ranges::sort(seconds);
  Result result{bench.images,     seconds[seconds.size() / 2],
                seconds[0],       runtime::peak_memory_bytes(),
                engine->report(), {},
                tuner.record()};
  if (request.profile)
    result.profile = engine->profile(bench.programs[0].function, bench.programs[0].inputs,
                                     static_cast<int>(request.steps));
  return result;
}

double megabytes(std::int64_t bytes) {
  return static_cast<double>(bytes) * 1e-6;
}

void print_profile(const std::vector<runtime::LaunchTime>& profile) {
  double total = 0;
  int launches = 0;
  for (const runtime::LaunchTime& time : profile) {
    total += time.seconds;
    launches += time.launches;
  }
  fmt::print("\n{:>6} {:>9} {:>6} {:>9} {:>8} {:>9}  {}\n", "count", "ms", "share", "MB", "GB/s", "GFLOP/s",
             "kernel or call");
  for (const runtime::LaunchTime& time : profile) {
    fmt::print("{:>6} {:>9.3f} {:>5.1f}% {:>9.2f} {:>8.1f} {:>9.1f}  {}\n", time.launches, time.seconds * 1e3,
               100 * time.seconds / total, megabytes(time.bytes),
               static_cast<double>(time.bytes) / time.seconds * 1e-9,
               static_cast<double>(time.flops) / time.seconds * 1e-9, time.name);
  }
  fmt::print("{:>6} {:>9.3f}  one after the other\n", launches, total * 1e3);
}

void print_text(const Request& request, const Result& result) {
  fmt::print("{:<9} {:.1f}\n", "images/s", static_cast<double>(result.images) / result.median_seconds);
  fmt::print("{:<9} {:.2f} ms, median of {}; the fastest {:.2f} ms\n", "step", result.median_seconds * 1e3,
             request.steps, result.fastest_seconds * 1e3);
  fmt::print("{:<9} {:.1f} MB at the peak of the process; tensors {:.1f} MB, state {:.1f} MB\n", "memory",
             megabytes(result.peak_bytes), megabytes(result.engine.arena_bytes),
             megabytes(result.engine.state_bytes));
  if (result.engine.device_bytes > 0)
    fmt::print("{:<9} {:.1f} MB of the device's memory\n", "", megabytes(result.engine.device_bytes));
  fmt::print("{:<9} {:.2f} s: {} kernels, {} of them different, {} from the cache\n", "compile",
             result.engine.compile_seconds, result.engine.kernels, result.engine.unique_kernels,
             result.engine.cache_hits);
  for (const runtime::MadeChoice& choice : result.choices.made())
    fmt::print("{:<9} {}\n", "choice", describe(choice));
  if (request.profile) print_profile(result.profile);
}

nlohmann::ordered_json to_json(const Request& request, const Result& result) {
  nlohmann::ordered_json json = {{"images_per_s", static_cast<double>(result.images) / result.median_seconds},
                                 {"step_ms", result.median_seconds * 1e3},
                                 {"fastest_step_ms", result.fastest_seconds * 1e3},
                                 {"peak_mb", megabytes(result.peak_bytes)},
                                 {"arena_mb", megabytes(result.engine.arena_bytes)},
                                 {"state_mb", megabytes(result.engine.state_bytes)},
                                 {"device_mb", megabytes(result.engine.device_bytes)},
                                 {"compile_s", result.engine.compile_seconds},
                                 {"kernels", result.engine.kernels},
                                 {"unique_kernels", result.engine.unique_kernels},
                                 {"cache_hits", result.engine.cache_hits}};
  if (!result.choices.made().empty()) json["choices"] = runtime::to_json(result.choices);
  if (!request.profile) return json;
  json["profile"] = nlohmann::ordered_json::array();
  for (const runtime::LaunchTime& time : result.profile) {
    json["profile"].push_back({{"name", time.name},
                               {"launches", time.launches},
                               {"ms", time.seconds * 1e3},
                               {"bytes", time.bytes},
                               {"flops", time.flops}});
  }
  return json;
}

void run(const Request& request) {
  const Network network = resolve(request.network);
  const Result result = measure(request, network);
  if (request.json) {
    print_json(to_json(request, result));
  } else {
    print_text(request, result);
  }
}

}  // namespace

Command bench_command() {
  return make_command<Request>("bench", "images a second, memory and compile time, on random inputs", declare,
                               run);
}

}  // namespace rewire::cli

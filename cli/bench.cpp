// rewire bench: measures how fast a network trains or infers, and where the time goes. With --pipe, one
// process measures several networks in turn. It makes kernels, libraries and contexts once, and another
// program's steps can run between the measurements.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <utility>

#include "cli/bench_network.h"
#include "cli/bench_ranks.h"
#include "cli/bench_variants.h"
#include "cli/choices.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/json.h"
#include "cli/memory.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "cli/summary.h"
#include "cli/trace_events.h"
#include "ir/error.h"
#include "programs/programs.h"
#include "runtime/device/process.h"
#include "runtime/exec/benchmark.h"
#include "runtime/exec/ceilings.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/files.h"

namespace rewire::cli {
namespace {

constexpr std::int64_t kWarmUp = 2;
constexpr std::int64_t kRefreshes = 3;  // the number of timed refreshes

void declare(BenchRequest& request, Options& options) {
  declare_network(request.network, options, Options::Need::optional);
  options.choice("--mode", request.mode, {"train", "infer"},
                 "train: optimizer steps; infer: the forward program");
  options.integer("--batch", request.batch, 1,
                  "images per batch; the recipe's train.batch, or the module's own, by default");
  options.integer("--steps", request.steps, 1, "number of timed steps, after 2 warm-up steps");
  declare_device(request.engine, options);
  declare_overrides(request.overrides, options);
  options.integer("--threads", request.threads, 1,
                  "number of threads that compute; the recipe's train.threads by default");
  declare_choices(request.choices, options);
  declare_tune(request.choices.tune, options);
  options.flag(
      "--profile", request.profile,
      "also print each kernel and call: its best time in --steps runs with every launch alone, and what it "
      "moves and computes");
  options.flag(
      "--kernels", request.kernels,
      "like --profile, also with each one's share of the rate of a large copy and of the processor's "
      "multiply-adds, both timed here; with --device cuda of the rate of a large product, and also "
      "registers, spills and shared memory");
  options.text("--trace", request.trace,
               "a file to write the start-up and the launches of --profile to, for ui.perfetto.dev");
  options.flag(
      "--resident", request.resident,
      "also time steps whose inputs stay in device memory; each other step copies a batch from the host");
  options.flag(
      "--data", request.data,
      "also train on the recipe's data: images/s of each part of their way to the step, and which limits");
  options.flag("--ranks", request.ranks,
               "instead of a network, time sums over the processes that mpirun has started, --steps times "
               "for each size");
  options
      .text("--variants", request.variants,
            "a TOML file with two [[variant]]s or more, each with name, and with set, plugin and tune as on "
            "the "
            "command line: time all in turn, --steps steps of each, and compare them with the first")
      .takes(Values::file, {".toml"});
  options.flag("--json", request.json, "print the result as JSON");
  options.flag(
      "--pipe", request.pipe,
      "read lines from stdin, each a JSON array with the arguments of one bench, and answer each with a line "
      "of JSON; compiled networks are kept for later lines, until the line []");
  options.example("rewire bench vit_tiny_28", "time a training step");
  options.example("rewire bench vit_tiny_28 --profile --steps 50", "also time each kernel in it");
  options.example("rewire bench vit_tiny_28 --mode infer --batch 1 --json",
                  "time a forward pass of one image");
  options.example("rewire bench vit_tiny_28 --variants variants.toml",
                  "time variants of a network beside each other");
  options.example("rewire bench RECIPE --data --device cuda", "see whether the data keep up with the steps");
  options.example("rewire bench --ranks", "started by mpirun -n 2: how fast two processes add arrays");
}

/// Measures the prepared network. With request.kernels, it destroys the engine before it measures the
/// ceilings, so that the engine's memory is free.
BenchResult measure(const BenchRequest& request, Prepared& prepared) {
  const Bench& bench = prepared.bench;
  const runtime::RecipeTrain& train = prepared.network.recipe.train;
  runtime::JitEngine& engine = *prepared.engine;
  const auto time = [&](runtime::Feed feed) {
    return runtime::time_rounds(engine, bench.programs, kWarmUp, request.steps, feed);
  };
  BenchResult result{bench.images, train.tf32, time(runtime::Feed::host), {}, {}, 0, 0, {},
                     {},           {},         prepared.choices,          {}};
  if (request.resident) result.resident = time(runtime::Feed::resident);
  if (bench.module.find_function("refresh") != nullptr) {
    engine.run("refresh_first", {});
    std::vector<runtime::TimedProgram> refresh;
    refresh.push_back(timed(bench.module, "refresh", 1));
    result.refresh = runtime::time_rounds(engine, refresh, 1, kRefreshes);
    result.refresh_period = programs::refresh_period(prepared.network.recipe.optimizer);
  }
  if (prepared.data != nullptr)
    result.data =
        measure_data(engine, bench.module, bench.programs, *prepared.data, result.fed, request.steps);
  result.peak_bytes = runtime::peak_memory_bytes();
  result.engine = engine.report();
  if (request.profile || request.kernels || !request.trace.empty())
    result.profile =
        engine.profile(bench.programs[0].function, bench.programs[0].inputs, static_cast<int>(request.steps));
  if (request.kernels) {
    prepared.engine.reset();
    const ir::DType dtype = train.dtype == "bf16" ? ir::DType::bf16 : ir::DType::f32;
    result.ceilings = runtime::measure_ceilings(prepared.engine_name, dtype, result.tf32, prepared.threads);
  }
  return result;
}

void print_profile(const std::vector<runtime::LaunchTime>& profile) {
  double total = 0;
  int launches = 0;
  for (const runtime::LaunchTime& time : profile) {
    total += time.seconds;
    launches += time.launches;
  }
  print("\n{:>6} {:>9} {:>6} {:>9} {:>8} {:>9}  {}\n", "count", "ms", "share", "MB", "GB/s", "GFLOP/s",
        "kernel or call");
  for (const runtime::LaunchTime& time : profile) {
    print("{:>6} {:>9.3f} {:>5.1f}% {:>9.2f} {:>8.1f} {:>9.1f}  {}\n", time.launches, time.seconds * 1e3,
          100 * time.seconds / total, megabytes(time.bytes),
          static_cast<double>(time.bytes) / time.seconds * 1e-9,
          static_cast<double>(time.flops) / time.seconds * 1e-9, time.name);
  }
  print("{:>6} {:>9.3f}  total, one launch at a time\n", launches, total * 1e3);
}

/// Returns the share in percent, "82"; "" if there is nothing to compare.
std::string share(double rate, double ceiling) {
  return rate > 0 && ceiling > 0 ? fmt::format("{:.0f}", 100 * rate / ceiling) : "";
}

void print_kernels(const std::vector<runtime::LaunchTime>& profile, const runtime::Ceilings& ceilings) {
  double total = 0;
  for (const runtime::LaunchTime& time : profile) total += time.seconds;
  const bool on_gpu = std::ranges::any_of(profile, [](const auto& time) { return time.use.has_value(); });
  const std::string use_head = on_gpu ? fmt::format(" {:>5} {:>6} {:>7}", "regs", "spills", "shared") : "";
  print("\n{:>6} {:>9} {:>6} {:>9} {:>9} {:>8} {:>7} {:>9} {:>8}{}  {}\n", "count", "ms", "share", "MB",
        "Mflop", "GB/s", "% copy", "GFLOP/s", ceilings.in_registers ? "% peak" : "% GEMM", use_head,
        "kernel or call");
  for (const runtime::LaunchTime& time : profile) {
    const double bytes = static_cast<double>(time.bytes), flops = static_cast<double>(time.flops);
    std::string use = on_gpu ? std::string(21, ' ') : "";
    if (time.use)
      use = fmt::format(" {:>5} {:>6} {:>7}", time.use->registers, time.use->spill_bytes,
                        time.use->shared_bytes);
    print("{:>6} {:>9.3f} {:>5.1f}% {:>9.2f} {:>9.2f} {:>8.1f} {:>7} {:>9.1f} {:>8}{}  {}\n", time.launches,
          time.seconds * 1e3, 100 * time.seconds / total, bytes * 1e-6, flops * 1e-6,
          bytes / time.seconds * 1e-9, share(bytes / time.seconds, ceilings.bytes_per_second),
          flops / time.seconds * 1e-9, share(flops / time.seconds, ceilings.flops_per_second), use,
          time.name);
  }
  print("{:>6} {:>9.3f}  total, one launch at a time\n", "", total * 1e3);
  print("100 % is {:.1f} GB/s (y = x + 1 beyond the caches) and {:.1f} GFLOP/s ({}), both timed here\n",
        ceilings.bytes_per_second * 1e-9, ceilings.flops_per_second * 1e-9,
        ceilings.in_registers ? "multiply-adds in registers" : "a square product");
}

void print_text(const BenchRequest& request, const BenchResult& result) {
  print("{:<9} {:.1f}\n", "images/s", static_cast<double>(result.images) / result.fed.median);
  const auto print_times = [&](const char* what, const runtime::RoundTimes& times) {
    print("{:<9} {:.2f} ms, median of {}; the fastest {:.2f} ms\n", what, times.median * 1e3, request.steps,
          times.fastest * 1e3);
  };
  print_times("step", result.fed);
  if (result.resident) print_times("resident", *result.resident);
  if (result.data) print_data(*result.data);
  if (result.refresh)
    print("{:<9} {:.2f} ms for the optimizer, after every {} steps\n", "refresh",
          result.refresh->median * 1e3, result.refresh_period);
  print("{:<9} {:.1f} MB at the peak of the process; tensors {:.1f} MB, state {:.1f} MB\n", "memory",
        megabytes(result.peak_bytes), megabytes(result.engine.arena_bytes),
        megabytes(result.engine.state_bytes));
  if (result.engine.packed_bytes > 0)
    print("{:<9} {:.1f} MB of weights packed for products\n", "", megabytes(result.engine.packed_bytes));
  if (result.engine.device_bytes > 0)
    print("{:<9} {:.1f} MB of the device's memory\n", "", megabytes(result.engine.device_bytes));
  print("{:<9} {:.2f} s: {} kernels, {} of them different, {} from the cache\n", "compile",
        result.engine.compile_seconds, result.engine.kernels, result.engine.unique_kernels,
        result.engine.cache_hits);
  if (result.tf32) print("{:<9} of f32 use TF32\n", "products");
  for (const runtime::MadeChoice& choice : result.choices.made())
    write_stdout(fmt::format("{:<9} {}\n", "choice", describe(choice)));
  if (result.ceilings) {
    print_kernels(result.profile, *result.ceilings);
  } else if (request.profile) {
    print_profile(result.profile);
  }
}

void require_model(const BenchRequest& request, std::string_view otherwise) {
  if (request.data && request.mode == "infer")
    user_error("bench: --data feeds training steps: drop --mode infer");
  if (request.network.model.empty())
    user_error("bench: MODEL is required{}; see rewire bench --help", otherwise);
}

/// Returns everything that a compiled network depends on.
std::string key_of(const BenchRequest& request) {
  const runtime::NetworkRequest& network = request.network;
  return nlohmann::ordered_json{network.model,         network.settings,     network.plugins,
                                network.plugin_path,   network.trust,        request.mode,
                                request.batch,         request.threads,      request.data,
                                request.engine.device, request.choices.file, request.choices.no_autotune,
                                request.choices.tune,  request.overrides}
      .dump();
}

/// The networks of earlier lines, by key_of().
using PreparedNetworks = std::map<std::string, Prepared>;

nlohmann::ordered_json answer(const std::string& line, PreparedNetworks& prepared) {
  const nlohmann::json words = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!words.is_array() || !std::ranges::all_of(words, [](const auto& word) { return word.is_string(); }))
    user_error("bench --pipe: a line must be a JSON array of strings, the arguments of one bench");
  if (words.empty()) {
    prepared.clear();
    return nlohmann::ordered_json::object();
  }
  BenchRequest request;
  parse_options(
      "bench", [&](Options& options) { declare(request, options); }, words.get<std::vector<std::string>>());
  require_model(request, "");
  if (request.pipe) user_error("bench --pipe: a line cannot have --pipe");
  if (!request.trace.empty()) user_error("bench --pipe: a line cannot have --trace");
  if (!request.variants.empty()) user_error("bench --pipe: a line cannot have --variants");
  const std::string key = key_of(request);
  auto found = prepared.find(key);
  if (found == prepared.end()) found = prepared.emplace(key, prepare(request)).first;
  const BenchResult result = measure(request, found->second);
  if (found->second.engine == nullptr) prepared.erase(found);
  return to_json(request, result);
}

/// Answers every line of stdin. A failure is an "error" in the answer to its line.
void answer_lines() {
  PreparedNetworks prepared;
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::ordered_json answered;
    try {
      answered = answer(line, prepared);
    } catch (const std::bad_alloc&) {
      answered["error"] = exhausted_memory();
    } catch (const std::exception& error) {
      answered["error"] = error.what();
    }
    print_json_line(answered);
    flush_stdout();
  }
}

void write_trace(const BenchRequest& request, const Prepared& prepared, const BenchResult& result) {
  const nlohmann::ordered_json trace =
      trace_events(prepared.stages, prepared.bench.programs[0].function, result.profile);
  runtime::write_file_atomically(request.trace, trace.dump(1) + "\n");
}

void run(const BenchRequest& request) {
  if (request.ranks) {
    if (!request.network.model.empty()) user_error("bench --ranks: it times no network: drop MODEL");
    if (request.data) user_error("bench --ranks: it takes no data: drop --data");
    return bench_ranks(static_cast<int>(request.steps), request.json);
  }
  if (request.pipe) {
    if (!request.network.model.empty()) user_error("bench --pipe: MODEL belongs in the lines: drop it");
    if (!request.trace.empty()) user_error("bench --pipe: --trace works only without --pipe: drop one");
    if (!request.variants.empty()) user_error("bench --pipe: --variants works only without --pipe: drop one");
    return answer_lines();
  }
  require_model(request, " (or --pipe, or --ranks)");
  if (!request.variants.empty()) {
    if (request.data) user_error("bench --variants: it takes no data: drop --data");
    return bench_variants(request);
  }
  if (!request.trace.empty()) check_output(request.trace, files_of(request.network), "--trace");
  Prepared prepared = prepare(request);
  const BenchResult result = measure(request, prepared);
  if (!request.trace.empty()) write_trace(request, prepared, result);
  if (request.json) {
    print_json(to_json(request, result));
  } else {
    print_text(request, result);
  }
}

}  // namespace

Command bench_command() {
  return make_command<BenchRequest>("bench", "measure images/s, memory and compile time, on random inputs",
                                    declare, run, "a smaller --batch");
}

}  // namespace rewire::cli

// rewire train: trains a network on data, into a run folder.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "cli/choices.h"
#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/exit_codes.h"
#include "cli/json.h"
#include "cli/log.h"
#include "cli/memory.h"
#include "cli/network.h"
#include "cli/progress.h"
#include "cli/stop.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/exec/make_engine.h"
#include "runtime/group/group.h"
#include "runtime/run/run_folder.h"
#include "runtime/run/trained_network.h"
#include "runtime/train/trainer.h"

namespace rewire::cli {
namespace {

constexpr const char* kStopping =
    "rewire: stopping: the run is saved after this step; repeat to end at once\n";

struct TrainCommandRequest {
  runtime::NetworkRequest network;
  ChoiceRequest choices;
  EngineRequest engine;
  std::string out, resume;
  std::vector<std::string> overrides;
  bool json = false, plain = false;
};

void declare(TrainCommandRequest& request, Options& options) {
  declare_network(request.network, options, Options::Need::optional);
  options
      .text("--out", request.out,
            "the new run folder (runs/RECIPE-PLUGINS-sSEED, with a number if it is taken)")
      .takes(Values::folder);
  options.text("--resume", request.resume, "a run folder to continue in, instead of MODEL")
      .takes(Values::run);
  declare_engine(request.engine, options, true);
  declare_overrides(request.overrides, options);
  declare_choices(request.choices, options);
  options.flag("--plain", request.plain, "print no moving line, even on a terminal");
  options.flag("--json", request.json, "print an object");
  options.example("rewire train examples/recipes/fashion_vit.toml", "train by a recipe, into runs/");
  options.example("rewire train vit_tiny_28 --plugin none --set train.epochs=2 --set seed=1",
                  "train a zoo model with plain joins, for two epochs");
  options.example("rewire train --resume runs/fashion_vit-none-s0",
                  "continue after a kill, a crash or Ctrl-C");
}

void check(const TrainCommandRequest& request) {
  if (request.resume.empty() && request.network.model.empty()) {
    user_error("train: MODEL is required (or --resume RUN); see rewire train --help");
  }
  if (!request.resume.empty() && !request.network.model.empty()) {
    user_error("train: --resume {} has its own recipe: drop {}", request.resume, request.network.model);
  }
  if (!request.resume.empty() && !request.out.empty()) {
    user_error("train: --resume continues in {}: drop --out", request.resume);
  }
  if (!request.resume.empty() && !request.choices.file.empty()) {
    user_error("train: --resume uses the choices of {}: drop --choices", request.resume);
  }
  if (!request.resume.empty() && !request.overrides.empty()) {
    user_error("train: --resume uses the kernels that {} began with: drop --override-kernel", request.resume);
  }
  for (const std::string& setting : request.network.settings) {
    if (!request.resume.empty() && setting.starts_with("seed="))
      user_error("train: --set {}: a run keeps its seed; begin a new run for another", setting);
  }
}

/// Returns a folder named after model, plugins and seed: runs/fashion_vit-orthogonal-s0.
std::string default_folder(const std::string& model, const runtime::Recipe& recipe) {
  std::string plugins;
  for (const runtime::PluginSpec& spec : recipe.plugins)
    plugins += "-" + std::filesystem::path(spec.name).stem().string();
  return fmt::format("runs/{}{}-s{}", std::filesystem::path(model).stem().string(),
                     plugins.empty() ? "-none" : plugins, recipe.seed);
}

void print_object(const runtime::TrainResult& result) {
  nlohmann::ordered_json object = {{"run", result.run},
                                   {"complete", result.stopped_by == 0},
                                   {"steps", result.position.step},
                                   {"train_loss", result.train_loss}};
  if (result.evaluation) {
    for (const runtime::MetricValue& metric : result.evaluation->metrics)
      object[metric.name == "loss" ? "test_loss" : metric.name] = metric.value;
  }
  object["samples_per_s"] = result.samples_per_second;
  object["train_seconds"] = result.train_seconds;
  object["data_wait_seconds"] = result.data_wait_seconds;
  object["unreadable_samples"] = result.unreadable_samples;
  object["peak_mb"] = static_cast<double>(result.peak_memory_bytes) / 1e6;
  print_json(object);
}

void print_text(const runtime::TrainResult& result) {
  if (result.evaluation) {
    print("test {} on {} samples\n", runtime::metrics_text(result.evaluation->metrics),
          result.evaluation->samples);
  }
  print("{} steps in {}, {:.0f} samples/s, peak memory {:.0f} MB\nrun folder: {}\n", result.position.step,
        clock_text(result.train_seconds), result.samples_per_second,
        static_cast<double>(result.peak_memory_bytes) / 1e6, result.run);
  constexpr double kMuch = 0.1, kLong = 10;  // share of the time; seconds
  if (result.data_wait_seconds > std::max(kLong, kMuch * result.new_train_seconds)) {
    print("{:.0f} % of the time was spent waiting for data: rewire bench RECIPE --data says why\n",
          100 * result.data_wait_seconds / result.new_train_seconds);
  }
  if (result.unreadable_samples > 0)
    print("samples left out because they could not be read: {}\n", result.unreadable_samples);
}

runtime::TrainResult train(const TrainCommandRequest& request, runtime::Group& group, Progress& progress) {
  runtime::NetworkRequest asked = request.network;
  std::string recorded;
  if (!request.resume.empty()) {
    const runtime::RunFolder folder = runtime::RunFolder::open(request.resume);
    asked = runtime::request_of_run(asked, folder);
    recorded = runtime::recorded_engine(folder);
  }
  const std::string engine = engine_of(request.engine, recorded);
  if (group.size() > 1 && !request.engine.one_gpu().empty())
    user_error(
        "--device {}: each of several processes takes a GPU of its own; write --device cuda, and choose the "
        "GPUs "
        "by CUDA_VISIBLE_DEVICES",
        request.engine.device);
  runtime::share_devices(engine, group);
  runtime::Network network = runtime::resolve_network(asked);
  runtime::settle_shards(network.recipe, group, !request.resume.empty());
  const runtime::TrainRequest job{network.recipe,
                                  runtime::network_source(network),
                                  network.from_file ? network.from_file->text : "",
                                  engine,
                                  choice_options(request.choices),
                                  runtime::read_kernel_overrides(request.overrides),
                                  request.network.trust,
                                  stop_signal,
                                  &group};
  // A rank cannot say that it saves: the launcher sends signals to end ranks, too.
  const bool is_alone = group.size() == 1;
  listen_for_stop(is_alone && logs_info() ? kStopping : nullptr, is_alone);
  if (!request.resume.empty()) return runtime::resume_training(job, request.resume, progress);
  if (!request.out.empty()) return runtime::train(job, request.out, runtime::OutFolder::exact, progress);
  return runtime::train(job, default_folder(asked.model, network.recipe), runtime::OutFolder::numbered,
                        progress);
}

/// Ends all ranks. What one finds wrong, most often all do: rank 0 then says it for all.
[[noreturn]] void end_ranks(runtime::Group& group, const std::string& reason, int status) {
  using namespace std::chrono_literals;
  if (group.rank() != 0) std::this_thread::sleep_for(2s + group.rank() * 300ms);
  while (true) group.abort(reason, status);  // g++ takes a virtual function for one that returns
}

/// Trains as one rank of the group. Returns the result on all ranks.
runtime::TrainResult train_in(runtime::Group& group, const TrainCommandRequest& request) {
  const auto act = [&] {
    check(request);
    Progress progress(!logs_info(), request.plain);
    return train(request, group, progress);
  };
  if (group.size() == 1) return act();
  try {
    const runtime::TrainResult result = act();
    group.finish();
    return result;
  } catch (const UserError& error) {
    end_ranks(group, error.what(), kBadRequest);
  } catch (const OutOfMemory& error) {
    end_ranks(group, error.what(), kBadRequest);
  } catch (const std::bad_alloc&) {
    end_ranks(group, exhausted_memory(), kBadRequest);
  } catch (const std::exception& error) {
    end_ranks(group, error.what(), kFailure);
  }
}

void run(const TrainCommandRequest& request) {
  const std::unique_ptr<runtime::Group> group = runtime::make_group();
  if (group->rank() != 0) set_up_log("off");
  const runtime::TrainResult result = train_in(*group, request);
  if (group->rank() != 0) return;
  if (result.stopped_by != 0 && result.run.empty()) {
    throw Stopped(
        result.stopped_by,
        fmt::format("stopped by signal {} before its first step: nothing has changed", result.stopped_by));
  }
  request.json ? print_object(result) : print_text(result);
  if (result.stopped_by != 0) {
    throw Stopped(result.stopped_by,
                  fmt::format("stopped by signal {} after step {}; rewire train --resume {} continues",
                              result.stopped_by, result.position.step, result.run));
  }
}

}  // namespace

Command train_command() {
  return make_command<TrainCommandRequest>("train", "train a network by a recipe, into a run folder", declare,
                                           run);
}

}  // namespace rewire::cli

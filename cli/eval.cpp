// rewire eval: evaluates a run, or a file of weights, on the test images.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/device/log.h"
#include "runtime/exec/compile_notice.h"
#include "runtime/exec/make_engine.h"
#include "runtime/network/data_feed.h"
#include "runtime/network/weights.h"
#include "runtime/plugin/kept_plugins.h"
#include "runtime/run/checkpoint.h"
#include "runtime/run/run_folder.h"
#include "runtime/run/trained_network.h"
#include "runtime/train/run_loop.h"

namespace rewire::cli {
namespace {

struct EvalRequest {
  runtime::TrainedRequest trained;
  EngineRequest engine;
  std::int64_t epoch = -1;
  bool json = false;
};

void declare(EvalRequest& request, Options& options) {
  runtime::NetworkRequest& network = request.trained.network;
  options
      .text("RUN", network.model,
            "a run folder; with --weights also a recipe (.toml), a module (.rir) or a zoo model",
            Options::Need::required)
      .takes(Values::trained);
  options
      .text("--weights", request.trained.weights,
            "a safetensors file to evaluate instead of the run's last checkpoint")
      .takes(Values::file, {".safetensors"});
  options
      .text("--checkpoint", request.trained.checkpoint,
            "best, last or the name of a checkpoint of the run (0003-00002811); the last by default")
      .takes(Values::checkpoint);
  options.flag("--ema", request.trained.averages, "use the moving averages of the run's weights (train.ema)");
  options.integer(
      "--epoch", request.epoch, 0,
      "evaluate with the plugins that are on in this epoch; by default the last epoch that a run trained");
  options
      .list("--set", network.settings, "section.key=value: set or override a key of the recipe; repeatable")
      .takes(Values::setting);
  options
      .list("--plugin", network.plugins,
            "NAME:key=value,...: replace the recipe's plugins; none clears them; repeatable")
      .takes(Values::plugin);
  declare_plugin_path(network.plugin_path, options);
  declare_trust(network.trust, options);
  declare_other_strategy(network.other_strategy, options);
  declare_engine(request.engine, options);
  options.flag("--json", request.json, "print an object");
  options.example("rewire eval runs/fashion_vit-none-s0",
                  "evaluate the last checkpoint of a run on its test images");
  options.example("rewire eval runs/fashion_vit-none-s0 --checkpoint best --ema",
                  "evaluate the best one, with the moving averages of its weights");
  options.example("rewire eval examples/recipes/fashion_vit.toml --weights w.safetensors",
                  "evaluate weights from another source");
}

/// Warns about plugins that were rebuilt since the run, if the run folder keeps no copy of them.
void warn_of_other_builds(const std::vector<runtime::PluginBuild>& then,
                          const std::vector<runtime::PluginBuild>& now, const std::string& run) {
  const auto [before, after] = std::ranges::mismatch(then, now);
  if (before == then.end() || after == now.end() || before->name != after->name) return;
  runtime::write_log(
      runtime::LogLevel::warning,
      fmt::format("plugin '{}' was rebuilt since the run ({}), and {} keeps no copy of it: the "
                  "numbers may differ from the run's",
                  after->name, runtime::difference_of_builds(*before, after->sha256), run));
}

void run(const EvalRequest& request) {
  const std::string engine_name = engine_of(request.engine);
  runtime::TrainedNetwork trained = runtime::find_trained(request.trained);
  const runtime::Network& network = trained.network;
  const runtime::Recipe& recipe = network.recipe;
  runtime::ChoiceOptions choices{{}, false};
  if (trained.run) choices.given = runtime::recorded_choices(*trained.run);
  if (trained.weights.checkpoint && request.trained.network.plugins.empty()) {
    warn_of_other_builds(trained.weights.checkpoint->plugins, runtime::builds_of(network.plugins),
                         trained.run->path());
  }
  if (request.epoch >= 0) trained.epoch = request.epoch;
  const runtime::NetworkSource source = runtime::network_source(network);
  const std::string& file = trained.weights.file;
  const auto origin = runtime::read_origin(runtime::metadata_of(trained.weights), file);
  if (origin) {
    runtime::compare_normalisation(*origin, runtime::origin_of(network, trained.epoch), file);
  }
  const runtime::DataFeed data(recipe, runtime::Split::test,
                               runtime::network_face(source.forward(1), recipe.objective), /*trains=*/false,
                               origin ? origin->classes : std::vector<std::string>{},
                               runtime::target_of(engine_name));
  if (origin && origin->classes.empty() != data.source().class_names().empty()) {
    runtime::write_log(
        runtime::LogLevel::info,
        fmt::format("{}: classes are compared by label only: {} has no class names", data.source().name(),
                    origin->classes.empty() ? "the file of weights" : "the data set"));
  }
  data.log_left_out();
  runtime::EvalModule evaluated = runtime::make_eval_module(
      source, recipe, {.eval_batch = data.batch(), .competing = data.competing()}, trained.epoch);
  ir::Module& module = evaluated.module;
  data.take_bytes(module, "eval");
  runtime::require_precision(engine_name, module);
  const runtime::TensorMap weights = runtime::read_trained_weights(trained, module);
  runtime::Tuner tuner = runtime::make_tuner(engine_name, choices);
  runtime::make_choices(module, {"eval"}, tuner);
  const std::unique_ptr<runtime::Loader> loader = data.load();
  const std::unique_ptr<runtime::Engine> engine =
      runtime::make_engine(engine_name, module, {static_cast<int>(recipe.train.threads), tuner.record()});
  runtime::start_state(*engine, module, weights, static_cast<std::uint64_t>(recipe.seed));
  engine->prepare("eval");
  runtime::log_compiled(*engine);
  const runtime::Evaluation evaluation =
      *runtime::evaluate(*engine, {{module.function("eval"), evaluated.metrics}}, *loader, runtime::alone(),
                         [](std::int64_t) { return true; });

  if (!std::isfinite(evaluation.loss())) {
    user_error(
        "eval: {}: the loss on the {} samples is {}: the network has diverged, or a weight is not finite",
        file, evaluation.samples, evaluation.loss());
  }
  if (request.json) {
    nlohmann::ordered_json object = {{"weights", file}, {"samples", evaluation.samples}};
    for (const runtime::MetricValue& metric : evaluation.metrics) object[metric.name] = metric.value;
    if (data.competing() > 0) object["classes"] = data.competing();
    object["seconds"] = evaluation.seconds;
    print_json(object);
  } else {
    std::string among;
    if (data.competing() > 0)
      among = fmt::format(" of {} class{}", data.competing(), data.competing() == 1 ? "" : "es");
    print("{} on {} samples{}\n", runtime::metrics_text(evaluation.metrics), evaluation.samples, among);
  }
}

}  // namespace

Command eval_command() {
  return make_command<EvalRequest>("eval", "evaluate a run, or a file of weights, on the test images",
                                   declare, run, "a smaller batch (--set eval.batch=N)");
}

}  // namespace rewire::cli

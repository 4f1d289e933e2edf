// rewire step: takes optimizer steps on batches from files.
#include <fmt/format.h>

#include "cli/choices.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/program.h"
#include "ir/error.h"
#include "programs/programs.h"
#include "runtime/io/safetensors.h"
#include "runtime/measure/given.h"
#include "runtime/network/weights.h"

namespace rewire::cli {
namespace {

struct StepRequest {
  runtime::NetworkRequest network;
  ProgramRequest program;
  ChoiceRequest choices;
  std::string output, averages;
  std::int64_t steps = 1;
};

void declare(StepRequest& request, Options& options) {
  declare_network(request.network, options);
  declare_program(request.program, options,
                  "f32 [steps, batch, channels, height, width], or one batch that is used every step; with "
                  "train.accumulate=A and train.shards=V the first axis is steps*V*A");
  options
      .text("--labels", request.program.labels,
            ".npy: i64 [steps, batch], or [batch]; the same as --input label=FILE")
      .takes(Values::file, {".npy"});
  options.integer("--steps", request.steps, 1,
                  "number of optimizer steps; the schedule is stretched so that train.epochs end with them");
  declare_choices(request.choices, options);
  options
      .text("--output", request.output, "the safetensors file to write the weights to",
            Options::Need::required)
      .takes(Values::file, {".safetensors"});
  options
      .text("--ema-output", request.averages,
            "a safetensors file for the weights' moving averages, which train.ema keeps")
      .takes(Values::file, {".safetensors"});
  options.example(
      "rewire step vit_tiny_28 --weights w.safetensors --input xs.npy --labels ys.npy --steps 2 --output "
      "w2.safetensors",
      "take two optimizer steps on two batches");
}

void run(const StepRequest& request) {
  std::vector<std::string> read = files_of(request.network, request.program);
  read.push_back(request.choices.file);
  check_output(request.output, read);
  if (!request.averages.empty()) check_output(request.averages, read, "--ema-output");
  check_different({{"--output", request.output}, {"--ema-output", request.averages}});
  const runtime::Network network = runtime::resolve_network(request.network);
  const runtime::Recipe& recipe = network.recipe;
  if (!request.averages.empty() && recipe.train.ema == 0) {
    user_error("step: --ema-output {}: no averages are kept; --set train.ema=0.9999 keeps them",
               request.averages);
  }
  const programs::Inputs wanted = training_inputs(network);
  const runtime::GivenInputs given = read_inputs(request.program, names_of(wanted));
  ir::Module module = runtime::training_module(network, batch_of(given, wanted, true));
  const double steps_per_epoch =
      static_cast<double>(request.steps) / static_cast<double>(recipe.train.epochs);
  const programs::TrainOptions options = runtime::train_options(recipe, steps_per_epoch);
  programs::add_step_program(module, options);
  const std::string engine_name = engine_of(request.program.engine);
  runtime::require_precision(engine_name, module);
  const runtime::TensorMap weights = read_weights(network, module, request.program.weights);
  runtime::Tuner tuner = runtime::make_tuner(engine_name, choice_options(request.choices));
  std::vector<std::string> names = {"step", "accumulate", "apply", "refresh_first", "refresh"};
  for (int level = 0; options.shards >> level > 0; ++level) names.push_back(programs::fold_program(level));
  runtime::make_choices(module, names, tuner);
  const std::unique_ptr<runtime::Engine> engine =
      start_engine(network, module, request.program, weights, tuner.record());

  const std::vector<double> losses = runtime::run_given_steps(*engine, module, given, request.steps, options);
  const auto origin = runtime::origin_metadata(runtime::origin_of(network));
  runtime::write_safetensors(request.output, runtime::weights_of(*engine, module), origin);
  if (!request.averages.empty())
    runtime::write_safetensors(request.averages, runtime::averages_of(*engine, module), origin);
  print_json_line(nlohmann::ordered_json{{"losses", losses}});
}

}  // namespace

Command step_command() {
  return make_command<StepRequest>("step", "take optimizer steps on given batches; print losses as JSON",
                                   declare, run, "fewer images in --input");
}

}  // namespace rewire::cli

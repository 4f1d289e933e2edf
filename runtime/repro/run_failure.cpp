#include "runtime/repro/run_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/error.h"
#include "programs/programs.h"
#include "runtime/device/log.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/safetensors.h"
#include "runtime/measure/non_finite.h"
#include "runtime/network/data_feed.h"
#include "runtime/network/weights.h"
#include "runtime/network/weights_origin.h"
#include "runtime/repro/compare.h"
#include "runtime/run/checkpoint.h"
#include "runtime/run/run_folder.h"

namespace rewire::runtime {
namespace {

constexpr const char* kFailingStep = "step";

ir::Module step_of_run(const Network& network, std::int64_t samples, const RunProgress& progress) {
  const RunCourse course(network.recipe, samples, progress.position, progress.sizes);
  ir::Module module = training_module(network, network.recipe.train.shard_batch());
  programs::TrainOptions options = train_options(network.recipe, course.timeline().steps_per_epoch);
  options.timeline = course.timeline();
  options.first_draw = progress.sizes.first_draw;
  programs::add_step_program(module, options);
  std::erase_if(module.functions, [](const ir::Function& function) { return function.name != kFailingStep; });
  module.drop_unused_parameters();
  return module;
}

/// Replaces the engine's state by the checkpoint's.
void take_checkpoint(const std::string& checkpoint, const Network& network, std::int64_t epoch,
                     const ir::Module& module, Engine& engine) {
  std::set<std::string> taken;
  const CheckpointFiles files = read_checkpoint_files(checkpoint);
  const std::string origin =
      check_origin(files.weights.metadata, checkpoint, origin_of(network, epoch), network.other_strategy);
  if (!origin.empty()) write_log(LogLevel::info, fmt::format("{}: {}", checkpoint, origin));
  for (const SafetensorsFile* file : {&files.weights, &files.state}) {
    for (const auto& [name, tensor] : file->tensors) {
      const ir::Parameter* parameter = module.find_parameter(name);
      if (parameter == nullptr) continue;  // of another program
      if (parameter->type != tensor.type()) {
        user_error("repro: {}: {} is {}, but {} in this network: remove the option that changes it",
                   checkpoint, name, to_string(tensor.type()), to_string(parameter->type));
      }
      engine.write_state(name, tensor);
      taken.insert(name);
    }
  }
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.is_weight() && !taken.contains(parameter.name))
      user_error("repro: {} has no '{}': remove the option that changes the network", checkpoint,
                 parameter.name);
  }
}

}  // namespace

std::optional<ReproCase> non_finite_of_run(const Network& network, const std::string& run) {
  const Recipe& recipe = network.recipe;
  if (recipe.train.shard_batches() != 1)
    user_error(
        "repro: {}: train.accumulate = {}, train.shards = {}: steps of several programs are not supported",
        run, recipe.train.accumulate, recipe.train.shard_count());
  const DataFeed feed(recipe, Split::train, training_face(network_source(network), recipe.objective));
  const std::vector<std::string> checkpoints = RunFolder::open(run).checkpoints();
  RunProgress progress;
  progress.sizes = {recipe.train.shard_batch(), recipe.train.shard_batches()};
  if (!checkpoints.empty()) {
    progress = read_progress(checkpoints.back());
    progress.sizes = changed_sizes(recipe, progress.position, progress.sizes, progress.epochs_done, false);
  }
  const ir::Module module = step_of_run(network, feed.count(), progress);
  const auto engine = make_engine(engine_names().front(), module);
  const auto seed = static_cast<std::uint64_t>(recipe.seed);
  const ir::Module forward = training_module(network, recipe.train.shard_batch());
  start_state(*engine, module, fresh_weights(forward, network.plugins, seed), seed);
  const TrainPosition& at = progress.position;
  if (!checkpoints.empty()) take_checkpoint(checkpoints.back(), network, last_epoch(at), module, *engine);
  const std::unique_ptr<Loader> loader = feed.load({at.epoch, at.batches, at.samples});
  Batch batch;
  for (std::int64_t i = 0; i < feed.batches(); ++i) {
    loader->next(batch);
    TensorMap inputs = take_inputs(module.function(kFailingStep), batch);
    if (all_finite(engine->run(kFailingStep, inputs))) {
      put_back(std::move(inputs), batch);
      continue;
    }
    // A failed step leaves the state unchanged.
    ReproCase made;
    made.kind = ReproKind::non_finite;
    made.function = kFailingStep;
    made.subject = first_non_finite(module, kFailingStep, *engine, inputs);
    for (const ir::Parameter& parameter : module.parameters)
      made.state[parameter.name] = engine->read_state(parameter.name);
    made.inputs = std::move(inputs);
    made.module = module;
    return made;
  }
  return std::nullopt;
}

}  // namespace rewire::runtime

// Runs begun and taken up again: choices, first state, folder; see trainer.h. Their steps are run_loop.h's.
#include "runtime/train/trainer.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <utility>

#include "ir/error.h"
#include "runtime/exec/compile_notice.h"
#include "runtime/io/files.h"
#include "runtime/train/run_folder.h"
#include "runtime/train/run_log.h"
#include "runtime/train/run_loop.h"
#include "runtime/train/run_plan.h"
#include "runtime/train/run_plugins.h"
#include "runtime/train/start_weights.h"
#include "runtime/train/weights.h"

namespace rewire::runtime {
namespace {

constexpr const char* kNetworkFile = "network.rir";

/// All choices of all phases are made before the first step, so that a run that goes on has none to make.
ChoiceRecord choose(RunPlan& plan, const TrainRequest& request, const ChoiceOptions& options) {
  require_precision(request.engine, plan.programs.module);
  Tuner tuner = make_tuner(request.engine, options);
  make_choices(plan.programs.module, plan.programs.names(), tuner);
  return tuner.record();
}

std::unique_ptr<Engine> engine_for(const TrainRequest& request, const RunPlan& plan,
                                   const ChoiceRecord& choices, const std::vector<KernelOverride>& kernels) {
  return make_engine(request.engine, plan.programs.module, static_cast<int>(request.recipe.train.threads),
                     choices, kernels);
}

/// What the epochs from `first` on run: all of it before the first step, so that a signal never finds a run
/// compiling that has something to save.
void compile(const RunPlan& plan, std::int64_t first, Engine& engine, TrainObserver& observer) {
  const std::int64_t epochs = plan.epochs_begun();
  const std::vector<Phase>& phases = plan.programs.phases;
  const auto prepare = [&](const std::string& program) {
    if (plan.programs.module.find_function(program) == nullptr) return;
    observer.compiling(program);
    engine.prepare(program);
  };
  const auto prepare_evaluation = [&](const std::string& program) {
    try {
      prepare(program);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory("out of memory: try a smaller batch of the evaluation (--set eval.batch=N)");
    }
  };
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (phases[i].first_epoch >= epochs) break;
    const bool is_last = i + 1 == phases.size() || phases[i + 1].first_epoch >= epochs;
    const std::int64_t begin = std::max(first, phases[i].first_epoch);
    const std::int64_t end = is_last ? epochs : phases[i + 1].first_epoch;
    for (const char* kind : {"step", "accumulate", "apply", "refresh_first", "refresh", "diagnose"}) {
      if (begin < end) prepare(phases[i].program(kind));
    }
    if (!is_last && (begin >= end || !plan.evaluates_within(begin, end))) continue;
    for (const char* kind : {"eval", "eval_ema", "features", "features_ema", "pictures", "sample_step"})
      prepare_evaluation(phases[i].program(kind));
  }
  log_compiled(engine);
}

/// Every parameter as a new run has it.
TensorMap first_state(const TrainRequest& request, const RunPrograms& programs) {
  const ir::Module& module = programs.module;
  const ir::Module original = request.network.forward(1);  // what plugins add may be lacking in a file
  TensorMap state = read_start_weights(request.recipe, module, original);
  state.merge(initial_weights(request.network, programs));
  begin_averages(module, state);
  state.merge(fresh_state(module, state, request.network.seed));
  return state;
}

/// The recipe as the folder keeps it: a network that is no model of the zoo stands beside it.
void write_recipe(const TrainRequest& request, const RunFolder& folder) {
  Recipe recipe = request.recipe;
  if (!request.module_text.empty()) recipe.model.name = kNetworkFile;
  write_file_atomically(folder.file("recipe.toml"), to_toml(recipe));
}

Checkpoint read_last(const std::vector<std::string>& checkpoints, const RunPlan& plan,
                     const TrainRequest& request) {
  try {
    return read_checkpoint(checkpoints.back(), plan.programs.module, request.network.plugins);
  } catch (const DamagedCheckpoint& damage) {
    user_error("{}; {}", damage.what(), way_around_damage(checkpoints));
  }
}

/// Sums of a checkpoint before format 3, as they are kept now.
void settle_sums(const RunPlan& plan, TrainSums& sums) {
  if (!std::exchange(sums.of_old, false)) return;
  const auto steps = static_cast<double>(sums.steps);
  if (auto correct = sums.metrics.extract(kCorrectOfOld)) {
    correct.mapped().denominator = steps * static_cast<double>(plan.images_per_step());
    correct.key() = plan.programs.phases.front().train_metrics.at(1).name;
    sums.metrics.insert(std::move(correct));
  }
  for (auto& [name, sum] : sums.metrics) {
    if (sum.denominator != 0 || sums.steps == 0) continue;
    const auto runs = static_cast<double>(plan.recipe.train.accumulate);
    sum = {sum.numerator * runs, steps * runs};
  }
}

/// UserError where the checkpoint is not one of a run of this recipe.
void check_resumed(const RunPlan& plan, const Checkpoint& start, const std::string& checkpoint) {
  const TrainPosition& at = start.progress.position;
  if (const auto seed = start.state.at("rng.seed").as<std::int64_t>().front(); seed != plan.recipe.seed)
    user_error("{} is of a run with seed = {}, the recipe has {}", checkpoint, seed, plan.recipe.seed);
  if (at.step_in_epoch > plan.steps_per_epoch) {
    user_error("{}: its step {} of an epoch is beyond the {} that an epoch has now", checkpoint,
               at.step_in_epoch, plan.steps_per_epoch);
  }
  const std::int64_t most = plan.recipe.train.max_steps;
  if (most > 0 && at.step > most)
    user_error("{}: {} steps were done, more than train.max_steps={}", checkpoint, at.step, most);
  const std::int64_t begun = at.epoch + (at.step_in_epoch > 0 ? 1 : 0);
  if (begun > plan.recipe.train.epochs) {
    user_error("{}: {} epochs were begun, more than train.epochs={}", checkpoint, begun,
               plan.recipe.train.epochs);
  }
}

/// With a line in the log of how it ends.
TrainResult finish(RunLoop& run, RunLog& log) {
  try {
    TrainResult result = run.finish();
    log.ended(result);
    return result;
  } catch (const std::exception& error) {
    log.failed(error.what());
    throw;
  }
}

/// A new run that has not begun.
TrainResult stopped_before(int signal) {
  TrainResult result;
  result.stopped_by = signal;
  return result;
}

}  // namespace

TrainResult train(const TrainRequest& request, const std::string& out, OutFolder kind, TrainObserver& told) {
  RunLog observer(told);
  RunPlan plan(request);
  Checkpoint start;
  start.state = first_state(request, plan.programs);  // before anything is timed: a file may be refused
  start.progress.choices = choose(plan, request, request.choices);
  std::unique_ptr<Engine> engine = engine_for(request, plan, start.progress.choices, request.kernels);
  compile(plan, 0, *engine, observer);
  if (const int signal = request.stop_signal()) return stopped_before(signal);
  RunFolder folder = kind == OutFolder::numbered ? RunFolder::create_numbered(out) : RunFolder::create(out);
  try {
    if (!request.module_text.empty()) write_file_atomically(folder.file(kNetworkFile), request.module_text);
    write_recipe(request, folder);
    keep_plugins(folder, request.network.plugins);
    keep_kernels(folder, request.kernels);
    record_choices(folder, request.engine, start.progress.choices, request.kernels, 0);
    observer.stands_in(folder);
    observer.open();
    RunLoop run(request, plan, folder, observer, std::move(engine), std::move(start));
    TrainResult result = finish(run, observer);
    if (result.stopped_by == 0 || result.position.step > 0) return result;
    folder.discard_unused();
    return stopped_before(result.stopped_by);
  } catch (...) {
    folder.discard_unused();
    throw;
  }
}

TrainResult resume_training(const TrainRequest& request, const std::string& path, TrainObserver& told) {
  RunLog observer(told);
  RunPlan plan(request);
  RunFolder folder = RunFolder::open(path);
  folder.claim();
  Checkpoint start;
  const std::vector<std::string> checkpoints = folder.checkpoints();
  if (checkpoints.empty()) {  // killed before the first one
    start.state = first_state(request, plan.programs);
  } else {
    start = read_last(checkpoints, plan, request);
    check_resumed(plan, start, checkpoints.back());
    settle_sums(plan, start.progress.line);
    settle_sums(plan, start.progress.epoch);
  }
  const TrainPosition at = start.progress.position;
  ChoiceOptions options = request.choices;
  options.given = start.progress.choices;
  options.given.add(recorded_choices(folder));
  const ChoiceRecord choices = choose(plan, request, options);
  start.progress.choices = choices;
  // On another engine the run goes on without them, and the record says that.
  std::vector<KernelOverride> kernels;
  if (request.engine == kCudaEngine) kernels = recorded_kernels(folder);
  require_agreed(folder, kernels, request.trust);
  std::unique_ptr<Engine> engine = engine_for(request, plan, choices, kernels);
  compile(plan, at.epoch, *engine, observer);
  request.stop_signal();  // from here on one is noted
  const std::int64_t total_steps = plan.total_steps();
  RunLoop run(request, plan, folder, observer, std::move(engine), std::move(start));
  keep_plugins(folder, request.network.plugins);  // first, so that no recipe names what there is no copy of
  write_recipe(request, folder);
  record_choices(folder, request.engine, choices, kernels, at.step);
  if (at.step < total_steps) {  // what lies there is of a shorter run
    std::error_code ignored;
    for (const char* file : {kFinalWeights, kFinalAverages})
      std::filesystem::remove(folder.file(file), ignored);
  }
  observer.stands_in(folder);
  return finish(run, observer);
}

}  // namespace rewire::runtime

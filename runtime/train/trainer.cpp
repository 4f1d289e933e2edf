// Begins and resumes runs: choices, first state, folder; see trainer.h. run_loop.h has the steps.
#include "runtime/train/trainer.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "codegen/files/digest.h"
#include "ir/error.h"
#include "programs/programs.h"
#include "runtime/device/log.h"
#include "runtime/exec/compile_notice.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"
#include "runtime/network/start_weights.h"
#include "runtime/network/weights.h"
#include "runtime/plugin/builds.h"
#include "runtime/plugin/kept_plugins.h"
#include "runtime/run/run_folder.h"
#include "runtime/train/run_log.h"
#include "runtime/train/run_loop.h"
#include "runtime/train/run_plan.h"

namespace rewire::runtime {
namespace {

constexpr const char* kNetworkFile = "network.rir";

/// Returns the kinds of programs that training may have, in the order in which they are compiled.
std::vector<std::string> training_kinds(const RunPlan& plan) {
  std::vector<std::string> kinds = {"step", "accumulate"};
  for (int level = 0; plan.own_shards() >> level > 0; ++level) kinds.push_back(programs::fold_program(level));
  kinds.insert(kinds.end(), {"apply", "refresh_first", "refresh", "diagnose"});
  return kinds;
}

constexpr const char* kEvaluationKinds[] = {"eval",         "eval_ema", "features",
                                            "features_ema", "pictures", "sample_step"};

/// If memory is too small for an evaluation, the error names its batch.
template <class Action>
void for_evaluation(Action action) {
  try {
    action();
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("out of memory: try a smaller evaluation batch (--set eval.batch=N)");
  }
}

/// Makes all choices of all phases before the first step, so that a resumed run has none to make. Rank 0 times them, and
/// the others take its answers.
ChoiceRecord choose(RunPlan& plan, const TrainRequest& request, ChoiceOptions options) {
  ir::Module& module = plan.programs.module;
  require_precision(request.engine, module);
  if (!request.writes()) {
    const nlohmann::ordered_json made = nlohmann::ordered_json::parse(text_of_first(*request.group, ""));
    options = {record_from_json(JsonView(made, "rank 0's choices")), false};
  }
  Tuner tuner = make_tuner(request.engine, options);
  std::vector<std::string> training, evaluation;
  const std::vector<std::string> kinds = training_kinds(plan);
  const auto trains = [&](const std::string& program) {
    return std::ranges::any_of(plan.programs.phases, [&](const Phase& phase) {
      return std::ranges::any_of(kinds,
                                 [&](const std::string& kind) { return phase.program(kind) == program; });
    });
  };
  for (const std::string& program : plan.programs.names())
    (trains(program) ? training : evaluation).push_back(program);
  make_choices(module, training, tuner);
  for_evaluation([&] { make_choices(module, evaluation, tuner); });
  if (request.writes()) text_of_first(*request.group, to_json(tuner.record()).dump());
  return tuner.record();
}

/// Throws UserError if the ranks do not train the same network on the same data by the same code.
void require_one_run(const TrainRequest& request, const RunPlan& plan, const TensorMap& start) {
  if (request.group->size() == 1) return;
  const EngineFacts facts = engine_facts(request.engine);
  std::string libraries = facts.target, plugins;
  for (const LibraryVersion& library : facts.libraries) libraries += library.name + library.version + ";";
  std::string environment, kernels;
  for (const auto& [name, value] : facts.environment) environment += name + "=" + value + ";";
  for (const KernelOverride& kernel : request.kernels) kernels += kernel.kernel + "\n" + kernel.text + "\n";
  for (const PluginBuild& build : builds_of(request.network.plugins))
    plugins += build.name + build.version + build.sha256 + ";";
  codegen::Digest state;
  for (const auto& [name, tensor] : start) {
    state.update(std::as_bytes(std::span(name)));
    state.update(tensor.bytes());
  }
  require_same(*request.group, {{"version of Rewire", REWIRE_VERSION},
                                {"recipe", to_toml(request.recipe)},
                                {"network", request.module_text},
                                {"build of a plugin", plugins},
                                {"engine, processor or library", request.engine + libraries},
                                {"environment that decides results", environment},
                                {"kernel to override", kernels},
                                {"set of training data", plan.data.digest},
                                {"set of test data", plan.evaluated.digest},
                                {"state to start from", state.hex()}});
}

std::unique_ptr<Engine> engine_for(const TrainRequest& request, const RunPlan& plan,
                                   const ChoiceRecord& choices, const std::vector<KernelOverride>& kernels) {
  return make_engine(request.engine, plan.computed(),
                     {static_cast<int>(request.recipe.train.threads), choices, kernels,
                      plan.shares ? plan.shares->others : StatesOfOthers{}});
}

/// Compiles what the epochs from `first` on run, all of it before the first step. So a signal never finds a
/// run compiling that has something to save.
void compile(const RunPlan& plan, std::int64_t first, Engine& engine, TrainObserver& observer, Group& group) {
  // Rank 0's kernels are in the cache when the others need them.
  if (group.rank() != 0) group.barrier();
  const std::vector<std::string> kinds = training_kinds(plan);
  const std::int64_t epochs = plan.course.epochs_begun();
  const std::vector<Phase>& phases = plan.programs.phases;
  const auto prepare = [&](const std::string& program) {
    if (plan.programs.module.find_function(program) == nullptr) return;
    observer.compiling(program);
    engine.prepare(program);
  };
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (phases[i].first_epoch >= epochs) break;
    const bool is_last = i + 1 == phases.size() || phases[i + 1].first_epoch >= epochs;
    const std::int64_t begin = std::max(first, phases[i].first_epoch);
    const std::int64_t end = is_last ? epochs : phases[i + 1].first_epoch;
    for (const std::string& kind : kinds) {
      if (begin < end) prepare(phases[i].program(kind));
    }
    if (!is_last && (begin >= end || !plan.evaluates_within(begin, end))) continue;
    for (const char* kind : kEvaluationKinds) for_evaluation([&] { prepare(phases[i].program(kind)); });
  }
  log_compiled(engine);
  if (group.rank() == 0) group.barrier();
}

/// Returns every parameter as a new run has it.
TensorMap first_state(const TrainRequest& request, const RunPrograms& programs) {
  const ir::Module& module = programs.module;
  const ir::Module original = request.network.forward(1);  // a file may lack what plugins add
  TensorMap state =
      read_start_weights(request.recipe, module, original, origin_of(request.recipe, request.network, 0));
  state.merge(initial_weights(request.network, programs));
  begin_averages(module, state);
  state.merge(fresh_state(module, state, request.network.seed));
  return state;
}

/// Writes the recipe as the folder keeps it. A network that is not a model of the zoo is in a file beside
/// it. `accepts`: keeps data.changed until there is a checkpoint of the other data.
void write_recipe(const TrainRequest& request, const RunFolder& folder, bool accepts = false) {
  Recipe recipe = request.recipe;
  if (!request.module_text.empty()) recipe.model.name = kNetworkFile;
  if (!accepts) recipe.data.changed = RecipeData{}.changed;
  write_file_atomically(folder.place("recipe.toml"), to_toml(recipe));
}

/// Reads from the last checkpoint. If that is damaged, the error names one that is not.
template <class Read>
auto last_sound(const std::vector<std::string>& checkpoints, Read read) {
  try {
    return read();
  } catch (const DamagedCheckpoint& damage) {
    user_error("{}; {}", damage.what(), way_around_damage(checkpoints));
  }
}

/// Throws UserError if the checkpoint is not one of a run of this recipe.
void check_resumed(const RunPlan& plan, const Checkpoint& start, const std::string& checkpoint) {
  const TrainPosition& at = start.progress.position;
  if (const auto seed = start.state.at("rng.seed").as<std::int64_t>().front(); seed != plan.recipe.seed)
    user_error("{} is from a run with seed = {}, but the recipe has {}", checkpoint, seed, plan.recipe.seed);
  const std::int64_t most = plan.recipe.train.max_steps;
  if (most > 0 && at.step > most)
    user_error("{}: {} steps were done, more than train.max_steps={}", checkpoint, at.step, most);
  const std::int64_t begun = at.epoch + (at.step_in_epoch > 0 ? 1 : 0);
  if (begun > plan.recipe.train.epochs) {
    user_error("{}: {} epochs were begun, more than train.epochs={}", checkpoint, begun,
               plan.recipe.train.epochs);
  }
}

std::string complete_text(const RunPlan& plan, const std::string& run) {
  const RecipeTrain& train = plan.recipe.train;
  const std::string limit = train.max_steps == plan.course.total_steps()
                                ? fmt::format("train.max_steps={}", train.max_steps)
                                : fmt::format("train.epochs={}", train.epochs);
  return fmt::format("{} is complete after step {}: to continue, --set more than {}", run,
                     plan.course.total_steps(), limit);
}

/// Finishes the run and logs how it ends.
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

/// Returns the result of a new run that has not begun.
TrainResult stopped_before(int signal) {
  TrainResult result;
  result.stopped_by = signal;
  return result;
}

}  // namespace

void settle_shards(Recipe& recipe, const Group& group, bool resumes) {
  if (recipe.train.shards == 0 && group.size() > 1 && !resumes) recipe.train.shards = group.size();
  check_shards(recipe);
}

TrainResult train(const TrainRequest& request, const std::string& out, OutFolder kind, TrainObserver& told) {
  std::optional<RunLog> log;
  if (request.writes()) log.emplace(told);
  TrainObserver& observer = log ? *log : told;
  RunPlan plan(request);
  Checkpoint start;
  start.state = first_state(request, plan.programs);  // before anything is timed: a file may be refused
  require_one_run(request, plan, start.state);
  start.progress.choices = choose(plan, request, request.choices);
  std::unique_ptr<Engine> engine = engine_for(request, plan, start.progress.choices, request.kernels);
  compile(plan, 0, *engine, observer, *request.group);
  if (const int signal = request.agreed_stop()) return stopped_before(signal);
  if (!request.writes()) {
    const std::string path = text_of_first(*request.group, "");
    return RunLoop(request, plan, path, nullptr, observer, std::move(engine), std::move(start)).finish();
  }
  RunFolder folder = kind == OutFolder::numbered ? RunFolder::create_numbered(out) : RunFolder::create(out);
  try {
    if (!request.module_text.empty()) write_file_atomically(folder.place(kNetworkFile), request.module_text);
    write_recipe(request, folder);
    keep_plugins(folder.path(), request.network.plugins);
    keep_kernels(folder, request.kernels);
    record_choices(folder, request.engine, start.progress.choices, request.kernels, 0);
    log->stands_in(folder);
    log->open();
    text_of_first(*request.group, folder.path());
    RunLoop run(request, plan, folder.path(), &folder, observer, std::move(engine), std::move(start));
    TrainResult result = finish(run, *log);
    if (result.stopped_by == 0 || result.position.step > 0) return result;
    folder.discard_unused();
    return stopped_before(result.stopped_by);
  } catch (...) {
    folder.discard_unused();
    throw;
  }
}

TrainResult resume_training(const TrainRequest& request, const std::string& path, TrainObserver& told) {
  std::optional<RunLog> log;
  if (request.writes()) log.emplace(told);
  TrainObserver& observer = log ? *log : told;
  if (!request.writes()) request.group->barrier();  // rank 0 removes what a killed process left
  RunFolder folder = RunFolder::open(path);
  if (request.writes()) {
    folder.claim();
    request.group->barrier();
  }
  const std::vector<std::string> checkpoints = folder.checkpoints();
  std::optional<RunProgress> progress;  // none: killed before the first checkpoint
  if (!checkpoints.empty())
    progress = last_sound(checkpoints, [&] { return read_progress(checkpoints.back()); });
  RunPlan plan(request, progress ? &*progress : nullptr, path);
  Checkpoint start;
  if (checkpoints.empty()) {
    start.state = first_state(request, plan.programs);
  } else {
    start = last_sound(checkpoints, [&] {
      return read_checkpoint(checkpoints.back(), plan.programs.module, request.network.plugins);
    });
    check_resumed(plan, start, checkpoints.back());
  }
  require_one_run(request, plan, start.state);
  const TrainPosition at = plan.begins;
  const std::int64_t most = request.recipe.train.max_steps;
  if (at.epoch >= request.recipe.train.epochs || (most > 0 && at.step >= most))
    write_log(LogLevel::info, complete_text(plan, path));
  ChoiceOptions options = request.choices;
  options.given = start.progress.choices;
  options.given.add(recorded_choices(folder));
  const ChoiceRecord choices = choose(plan, request, options);
  start.progress.choices = choices;
  // On another engine the run continues without these kernels, and the record shows that.
  std::vector<KernelOverride> kernels;
  if (request.engine == kCudaEngine) kernels = recorded_kernels(folder);
  require_agreed(folder, kernels, request.trust);
  std::unique_ptr<Engine> engine = engine_for(request, plan, choices, kernels);
  compile(plan, at.epoch, *engine, observer, *request.group);
  request.stop_signal();  // from here on, a signal is noted
  if (!request.writes())
    return RunLoop(request, plan, path, nullptr, observer, std::move(engine), std::move(start)).finish();
  const std::int64_t total_steps = plan.course.total_steps();
  const bool accepts = progress && progress->data != plan.data;
  RunLoop run(request, plan, folder.path(), &folder, observer, std::move(engine), std::move(start),
              [&] { write_recipe(request, folder); });
  keep_plugins(folder.path(),
               request.network.plugins);  // first: the recipe then names only plugins with a copy
  write_recipe(request, folder, accepts);
  record_choices(folder, request.engine, choices, kernels, at.step);
  if (at.step < total_steps) {  // existing files are those of a shorter run
    std::error_code ignored;
    for (const char* file : {kFinalWeights, kFinalAverages})
      std::filesystem::remove(folder.file(file), ignored);
  }
  log->stands_in(folder);
  return finish(run, *log);
}

}  // namespace rewire::runtime

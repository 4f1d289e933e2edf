#include "runtime/train/run_programs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/error.h"
#include "ir/verify.h"
#include "runtime/log.h"
#include "runtime/train/weights.h"

namespace rewire::runtime {
namespace {

/// The programs of `from` (all but forward) join `into` under their phase's names, and so do the parameters
/// that `into` lacks.
void merge(ir::Module& into, ir::Module from, const Phase& phase) {
  for (ir::Parameter& parameter : from.parameters) {
    const ir::Parameter* known = into.find_parameter(parameter.name);
    if (known == nullptr) {
      into.add_parameter(std::move(parameter));
    } else if (known->type != parameter.type) {
      user_error(
          "parameter '{}' is {} before epoch {} and {} from then on: a plugin that is switched must not "
          "change the shape of what another epoch uses",
          parameter.name, to_string(known->type), phase.first_epoch, to_string(parameter.type));
    }
  }
  std::string training(into.attributes.has("training") ? into.attributes.get_string("training") : "");
  const std::string added(from.attributes.has("training") ? from.attributes.get_string("training") : "");
  for (ir::Function& function : from.functions) {
    if (function.name == "forward") continue;
    const bool trains =
        fmt::format("+{}+", added).find(fmt::format("+{}+", function.name)) != std::string::npos;
    function.name = phase.program(function.name);
    if (trains) training += (training.empty() ? "" : "+") + function.name;
    into.functions.push_back(std::move(function));
  }
  if (!training.empty()) into.attributes.set("training", training);
}

/// Says which plugins begin with this phase, when weights that they initialise have been trained in earlier
/// ones: those stay as they are.
void warn_of_late_hooks(const std::vector<Initialised>& hooks, const Phase& phase, const TensorMap& earlier) {
  for (const Initialised& hook : hooks) {
    if (hook.from_epoch == 0 || hook.from_epoch != phase.first_epoch) continue;
    std::vector<std::string> late;
    for (const std::string& name : hook.weights) {
      if (earlier.contains(name)) late.push_back(name);
    }
    if (late.empty()) continue;
    const std::string others =
        late.size() == 1 ? ", which is" : fmt::format(" and {} more weights, which are", late.size() - 1);
    write_log(LogLevel::warning, fmt::format("plugin '{}' is switched on at epoch {}: its initialisation is "
                                             "not applied to '{}'{} trained before",
                                             hook.plugin, hook.from_epoch, late.front(), others));
  }
}

/// Counters for weights that some phase does not train although a later one does: their moments have seen
/// fewer gradients than the optimizer has done updates. Weights that the same epochs switch on and off share
/// one, named after these epochs: "optimizer.step.2" from epoch 2 on, "optimizer.step.0_3_5" to epoch 3 and
/// again from 5 on. The last one is not named by where it ends: a run that becomes longer mostly keeps its
/// names, and checkpoint.cpp takes the counts over where it does not.
programs::UpdateCounters late_counters(const NetworkSource& source, const std::vector<std::int64_t>& epochs) {
  programs::UpdateCounters counters;
  if (epochs.size() == 1) return counters;
  std::map<std::string, std::vector<std::int64_t>> switches;  // on, off, on, …
  for (const std::int64_t epoch : epochs) {
    const std::vector<std::string> trained =
        programs::trained_parameters(rewritten_forward(source, 1, epoch));
    for (const std::string& weight : trained) {
      std::vector<std::int64_t>& of_weight = switches[weight];
      if (of_weight.size() % 2 == 0) of_weight.push_back(epoch);
    }
    for (auto& [weight, of_weight] : switches) {
      const bool on = std::ranges::find(trained, weight) != trained.end();
      if (!on && of_weight.size() % 2 == 1) of_weight.push_back(epoch);
    }
  }
  for (auto& [weight, of_weight] : switches) {
    if (of_weight.size() % 2 == 0) of_weight.pop_back();
    if (of_weight.size() == 1 && of_weight.front() == 0) continue;
    counters.emplace(weight, fmt::format("optimizer.step.{}", fmt::join(of_weight, "_")));
  }
  return counters;
}

bool draws_samples(const ir::Selection& objective) {
  return ir::find_row(programs::objectives(), "objective.name", objective.name).samples;
}

}  // namespace

ir::Module rewritten_forward(const NetworkSource& source, std::int64_t batch, std::int64_t epoch) {
  ir::Module module = source.forward(batch);
  apply_plugins(module, source.plugins, source.seed, epoch);
  return module;
}

void set_precision(ir::Module& module, const NetworkSource& source) {
  if (source.precision) ir::mixed_precision(module, module.function("forward"), *source.precision);
  ir::allow_tf32(module, source.tf32);
  ir::set_recompute(module, source.recompute);
}

ir::Module computed_forward(const NetworkSource& source, std::int64_t batch, std::int64_t epoch) {
  ir::Module module = rewritten_forward(source, batch, epoch);
  set_precision(module, source);
  return module;
}

const Phase& RunPrograms::phase_of(std::int64_t epoch) const {
  const auto later = std::ranges::find_if(phases, [&](const Phase& p) { return p.first_epoch > epoch; });
  return *std::prev(later);
}

std::vector<std::string> RunPrograms::names() const {
  std::vector<std::string> names;
  for (const ir::Function& function : module.functions) names.push_back(function.name);
  return names;
}

RunPrograms make_run_programs(const NetworkSource& source, const programs::TrainOptions& options,
                              const RunShape& shape) {
  check_reached(source.plugins, shape.epochs);
  RunPrograms programs;
  ir::allow_tf32(programs.module, source.tf32);
  ir::set_recompute(programs.module, source.recompute);
  const std::vector<std::int64_t> epochs = switch_epochs(source.plugins, shape.epochs);
  const programs::UpdateCounters counters = late_counters(source, epochs);
  for (const std::int64_t epoch : epochs) {
    Phase phase{epoch, epoch == 0 ? "" : fmt::format("_from_{}", epoch), {}, {}, {}};
    ir::Module training = computed_forward(source, shape.batch, epoch);
    phase.train_metrics = programs::add_step_program(training, options, counters);
    ir::Module evaluation = computed_forward(source, shape.eval_batch, epoch);
    phase.eval_metrics = programs::add_eval_program(evaluation, options.objective);
    const bool averages = options.ema != 0;
    if (averages) programs::add_average_eval_program(evaluation, options.objective);
    if (shape.pictures > 0)
      phase.pictures =
          programs::add_pictures_program(evaluation, options.objective, shape.pictures, averages);
    if (epoch == 0) programs.module.name = training.name;
    merge(programs.module, std::move(training), phase);
    merge(programs.module, std::move(evaluation), phase);
    if (shape.pictures > 0 && draws_samples(options.objective)) {
      ir::Module samples = computed_forward(source, shape.pictures, epoch);
      programs::add_sample_programs(samples, options.objective, {.averages = averages});
      merge(programs.module, std::move(samples), phase);
    }
    programs.phases.push_back(phase);
  }
  ir::verify(programs.module);
  programs.refresh_period = programs::refresh_period(options.optimizer);
  return programs;
}

namespace {

/// The parameters of other epochs' networks join the module, so that a checkpoint fits it.
void add_parameters_of_phases(ir::Module& module, const NetworkSource& source, std::int64_t epochs) {
  for (const std::int64_t start : switch_epochs(source.plugins, epochs)) {
    for (ir::Parameter& parameter : rewritten_forward(source, 1, start).parameters) {
      if (module.find_parameter(parameter.name) == nullptr) module.add_parameter(std::move(parameter));
    }
  }
}

}  // namespace

EvalModule make_eval_module(const NetworkSource& source, const ir::Selection& objective, std::int64_t batch,
                            std::int64_t epoch, std::int64_t epochs) {
  EvalModule evaluation{computed_forward(source, batch, epoch), {}};
  ir::Module& module = evaluation.module;
  evaluation.metrics = programs::add_eval_program(module, objective);
  add_parameters_of_phases(module, source, epochs);
  ir::verify(module);
  return evaluation;
}

ir::Module make_sample_module(const NetworkSource& source, const ir::Selection& objective,
                              std::int64_t images, const programs::SampleOptions& options, std::int64_t epoch,
                              std::int64_t epochs) {
  ir::Module module = computed_forward(source, options.guided ? 2 * images : images, epoch);
  programs::add_sample_programs(module, objective, options);
  add_parameters_of_phases(module, source, epochs);
  ir::verify(module);
  return module;
}

TensorMap initial_weights(const NetworkSource& source, const RunPrograms& programs) {
  TensorMap weights;
  for (const Phase& phase : programs.phases) {
    const ir::Module module = rewritten_forward(source, 1, phase.first_epoch);
    std::vector<Initialised> hooks;
    TensorMap fresh = fresh_weights(module, source.plugins, source.seed, phase.first_epoch, &hooks);
    warn_of_late_hooks(hooks, phase, weights);
    weights.merge(std::move(fresh));
  }
  return weights;
}

}  // namespace rewire::runtime

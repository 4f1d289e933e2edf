#include "runtime/network/run_programs.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/residual.h"
#include "ir/verify.h"
#include "programs/diagnose.h"
#include "programs/generate.h"
#include "programs/objective.h"
#include "runtime/device/log.h"
#include "runtime/network/weights.h"

namespace rewire::runtime {
namespace {

/// Adds the programs of `from` to `into` under their phase's names, and the parameters that `into` lacks.
void merge(ir::Module& into, ir::Module from, const Phase& phase) {
  for (ir::Parameter& parameter : from.parameters) {
    const ir::Parameter* known = into.find_parameter(parameter.name);
    if (known == nullptr) {
      into.add_parameter(std::move(parameter));
    } else if (known->type != parameter.type) {
      user_error(
          "parameter '{}' is {} before epoch {} and {} after: a plugin that is switched must not change the "
          "shape of a parameter that another epoch uses",
          parameter.name, to_string(known->type), phase.first_epoch, to_string(parameter.type));
    }
  }
  for (ir::Function& function : from.functions) {
    function.name = phase.program(function.name);
    into.functions.push_back(std::move(function));
  }
}

/// Warns of plugins that begin with this phase if earlier phases trained weights that they initialise.
/// Those weights stay as they are.
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

/// Counters for weights that some phase does not train although a later phase does. Their moments have seen
/// fewer gradients than the optimizer has made updates. Weights that the same epochs switch on and off share
/// a counter, named after these epochs. "optimizer.step.2" counts from epoch 2 on, "optimizer.step.0_3_5" to
/// epoch 3 and again from 5 on. A final switch-off is not part of the name, so a run that becomes longer
/// mostly keeps its names. Where it does not, checkpoint.cpp carries the counts over.
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

/// Returns the function "features" of a backbone, f32 [batch, width]. Throws UserError if it has none.
ir::Function features_function(ir::Module& backbone) {
  ir::Function function = backbone.function("forward");
  const ir::Value features = function.result("features");
  if (!features || function.type(features).rank() != 2 || function.arguments.size() != 1) {
    user_error(
        "eval.knn compares features of images, but this network gives no 'features' [batch, width] from an "
        "image alone: set eval.knn=0");
  }
  function.name = "features";
  function.results.clear();
  ir::Builder b(backbone, function);
  b.result("features", b.cast(features, ir::DType::f32));
  return function;
}

/// Returns the same function on the averages of those weights that have one.
ir::Function of_averages(ir::Function function, const ir::Module& module) {
  function.name = "features_ema";
  for (ir::Op& op : function.body) {
    if (op.code != ir::Opcode::param) continue;
    const std::string average = programs::average_name(op.attributes.get_string("name"));
    if (module.find_parameter(average) != nullptr) op.attributes.set("name", average);
  }
  return function;
}

ir::Module backbone_of(const NetworkSource& source, std::int64_t batch) {
  try {
    return source.backbone(batch);
  } catch (const UserError& error) {
    user_error("eval.knn: {}: set eval.knn=0", error.what());
  }
}

void add_features(const NetworkSource& source, std::int64_t batch, std::int64_t epoch, bool averages,
                  ir::Module& evaluation) {
  ir::Module backbone = backbone_of(source, batch);
  apply_plugins(backbone, plugins_of_parts(source.plugins, backbone), source.seed, epoch);
  set_precision(backbone, source);
  ir::Function features = features_function(backbone);
  for (const ir::Parameter& parameter : backbone.parameters) {
    if (evaluation.find_parameter(parameter.name) == nullptr) evaluation.add_parameter(parameter);
  }
  if (averages) evaluation.functions.push_back(of_averages(features, evaluation));
  evaluation.functions.push_back(std::move(features));
}

ir::Module rewritten_form(const NetworkSource& source, const programs::NetworkFunction& form,
                          std::int64_t batch, std::int64_t epoch) {
  ir::Module module = source.of(form, batch);
  apply_plugins(module, source.plugins, source.seed, epoch);
  return module;
}

bool draws_samples(const ir::Selection& objective) {
  return ir::find_row(programs::objectives(), "objective.name", objective.name).samples;
}

/// Returns the program `diagnose` for the network of an epoch; no program if it would report nothing.
ir::Module diagnosed(const NetworkSource& source, const programs::TrainOptions& options,
                     const RunShape& shape, std::int64_t epoch) {
  ir::Module module = computed_forward(source, shape.diagnose_batch, epoch);
  programs::add_diagnose_program(module, {options.objective, shape.diagnostics});
  if (module.function("diagnose").results.empty()) module.functions.pop_back();
  return module;
}

/// Throws UserError if no epoch has anything to diagnose.
void check_diagnosed(const RunPrograms& programs, const RunShape& shape) {
  const bool by_host =
      std::ranges::find(shape.diagnostics, programs::kConditioning) != shape.diagnostics.end();
  if (shape.diagnose_batch == 0 || by_host) return;
  const bool by_program = std::ranges::any_of(programs.phases, [&](const Phase& phase) {
    return programs.module.find_function(phase.program("diagnose")) != nullptr;
  });
  if (!by_program) {
    user_error("diagnose.what={}: the network has none of it: add other quantities",
               fmt::join(shape.diagnostics, "+"));
  }
}

}  // namespace

bool takes_any_batch(const NetworkSource& source) {
  const auto heeds = [&](std::int64_t batch) {
    const ir::Module module = source.forward(batch);
    const ir::Function& forward = module.function("forward");
    const ir::Shape& shape = forward.type(forward.arguments.at(0).value).shape;
    return !shape.empty() && shape[0] == batch;
  };
  return heeds(1) && heeds(2);
}

ir::Module rewritten_forward(const NetworkSource& source, std::int64_t batch, std::int64_t epoch) {
  return rewritten_form(source, {.images = 1}, batch, epoch);
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

std::vector<PluginHandle> plugins_of_parts(const std::vector<PluginHandle>& plugins,
                                           const ir::Module& module) {
  const ir::Function& forward = module.function("forward");
  std::set<std::string> scopes = {"all"};
  for (const std::size_t at : ir::find_joins(forward)) scopes.insert(ir::read_join(forward.body[at]).scope);
  std::vector<PluginHandle> kept;
  std::ranges::copy_if(plugins, std::back_inserter(kept), [&](const PluginHandle& plugin) {
    const auto values = plugin_values(*plugin);
    const auto scope = std::ranges::find(values, "scope", &std::pair<std::string, std::string>::first);
    return scope == values.end() || scope->second == "encoder" || scopes.contains(scope->second);
  });
  return kept;
}

ir::Module join_forms(const std::vector<programs::NetworkFunction>& forms, std::vector<ir::Module> modules) {
  ir::Module all = std::move(modules.front());
  for (std::size_t i = 1; i < forms.size(); ++i) {
    for (const ir::Parameter& parameter : modules[i].parameters) {
      const ir::Parameter* known = all.find_parameter(parameter.name);
      if (known == nullptr || known->type != parameter.type) {
        user_error("parameter '{}' is {} for images of {} pixels per side, but {} for the network's own",
                   parameter.name, to_string(parameter.type), forms[i].side,
                   known == nullptr ? "missing" : to_string(known->type));
      }
    }
    ir::Function function = modules[i].function("forward");
    function.name = forms[i].function;
    all.functions.push_back(std::move(function));
  }
  return all;
}

programs::Inputs training_inputs(const NetworkSource& source, const programs::Objective& objective) {
  const std::vector<programs::NetworkFunction> forms = objective.forms();
  std::vector<ir::Module> modules;
  for (const programs::NetworkFunction& form : forms) modules.push_back(source.of(form, 1));
  return objective.training_inputs(join_forms(forms, std::move(modules)));
}

ir::Module computed_forms(const NetworkSource& source, const std::vector<programs::NetworkFunction>& forms,
                          std::int64_t batch, std::int64_t epoch) {
  std::vector<ir::Module> modules;
  for (const programs::NetworkFunction& form : forms) {
    modules.push_back(rewritten_form(source, form, batch, epoch));
    set_precision(modules.back(), source);
  }
  return join_forms(forms, std::move(modules));
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
  const std::vector<programs::NetworkFunction> forms = programs::make_objective(options.objective)->forms();
  const auto is_form = [&](const ir::Function& function) {
    return std::ranges::find(forms, function.name, &programs::NetworkFunction::function) != forms.end();
  };
  for (const std::int64_t epoch : epochs) {
    Phase phase{epoch, epoch == 0 ? "" : fmt::format("_from_{}", epoch), {}, {}, {}};
    ir::Module training = computed_forms(source, forms, shape.batch, epoch);
    phase.train_metrics = programs::add_step_program(training, options, counters);
    ir::Module evaluation = computed_forward(source, shape.eval_batch, epoch);
    phase.eval_metrics = programs::add_eval_program(evaluation, options.objective, shape.competing);
    const bool averages = options.ema != 0;
    if (averages) programs::add_average_eval_program(evaluation, options.objective, shape.competing);
    if (shape.features) add_features(source, shape.eval_batch, epoch, averages, evaluation);
    if (shape.pictures > 0)
      phase.pictures =
          programs::add_pictures_program(evaluation, options.objective, shape.pictures, averages);
    if (epoch == 0) programs.module.name = training.name;
    const auto add = [&](ir::Module module) {
      std::erase_if(module.functions, is_form);
      merge(programs.module, std::move(module), phase);
    };
    add(std::move(training));
    add(std::move(evaluation));
    if (shape.pictures > 0 && draws_samples(options.objective)) {
      ir::Module samples = computed_forward(source, shape.pictures, epoch);
      programs::add_sample_programs(samples, options.objective, {.averages = averages});
      add(std::move(samples));
    }
    if (shape.diagnose_batch != 0) add(diagnosed(source, options, shape, epoch));
    programs.phases.push_back(phase);
  }
  check_diagnosed(programs, shape);
  ir::verify(programs.module);
  programs.refresh_period = programs::refresh_period(options.optimizer);
  return programs;
}

namespace {

/// Adds the parameters of other epochs' networks to the module, so that a checkpoint fits it.
void add_parameters_of_phases(ir::Module& module, const NetworkSource& source, std::int64_t epochs) {
  for (const std::int64_t start : switch_epochs(source.plugins, epochs)) {
    for (ir::Parameter& parameter : rewritten_forward(source, 1, start).parameters) {
      if (module.find_parameter(parameter.name) == nullptr) module.add_parameter(std::move(parameter));
    }
  }
}

}  // namespace

EvalModule make_eval_module(const NetworkSource& source, const Recipe& recipe, const RunShape& shape,
                            std::int64_t epoch) {
  EvalModule evaluation{computed_forward(source, shape.eval_batch, epoch), {}};
  ir::Module& module = evaluation.module;
  evaluation.metrics = programs::add_eval_program(module, recipe.objective, shape.competing);
  add_parameters_of_phases(module, source, recipe.train.epochs);
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

ir::Module make_generate_module(const NetworkSource& source, bool cached, std::int64_t epoch,
                                std::int64_t epochs) {
  ir::Module module = computed_forward(source, 1, epoch);
  if (cached) {
    for (const std::int64_t count : std::set<std::int64_t>{1, programs::prompt_tokens(module)})
      programs::add_read_program(module, count);
  } else {
    programs::add_whole_program(module);
  }
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

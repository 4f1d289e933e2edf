// From a rewritten forward function to programs: the objective's loss, gradients, optimizer. Everything is
// IR, so every backend runs it. `inputs` are the objective's, `metrics` the results that its metrics name:
//
//   grad(inputs) -> (loss, one result per trainable parameter that forward reads, named by it)
//   trace(inputs) -> (loss, values inside forward, gradients by them)
//   step(inputs) -> (metrics, grad_norm, finite, lr); updates parameters, moments, train.step and
//                         train.finite
//   accumulate(inputs) -> (metrics, finite); apply() -> (grad_norm, finite, lr)
//                         step and accumulate also give plain_loss where forward adds terms to the loss, and
//                         forward's reports under their names; forward's side results (ir/side_results.h)
//                         become terms of `loss`, updates, and what weights are behind a step
//   refresh_first() -> (finite), refresh() -> (finite) the optimizer's, behind some updates, where it has them
//   eval(inputs, weight) -> (metrics); is_training false, sample weight 0 for padding; where only some classes compete,
//                         it takes `present` f32[classes] too, 0 for each of the others
//   eval_ema(inputs, weight) -> (metrics), of the weights' averages
//   pictures(inputs) -> (one result per picture of the objective, named by it)
//   sample_step(image, time, step, label) -> (image, velocity), sample_correct(…): an objective's that samples
//
// finite is i1[], lr f32[]: the rate that this step used. grad, step and accumulate are training programs:
// dropout draws from (rng.seed, train.step). When a loss or a gradient is not finite, train.finite falls and
// stays down: that step and all after it leave every other state untouched, until the host raises it again.
// The share of training that is done is a function of train.step and the Timeline (scheduled_step), constants of the
// program as the learning rate's schedule is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/registry.h"
#include "programs/metric.h"
#include "programs/schedule.h"

namespace rewire::programs {

struct TrainOptions {
  ir::Selection objective{"supervised"}, optimizer{"adamw"}, schedule{"constant"};
  Timeline timeline;       // of the schedule, and of the progress that forward may read
  double clip_norm = 0;    // 0: none; else gradients scale by min(1, clip_norm / (norm + 1e-6)) as PyTorch
  bool clip_each = false;  // by the norm of each weight's gradient instead of that of all
  std::int64_t accumulate = 1;  // > 1: programs `accumulate` and `apply` instead of one `step`
  /// Added to the number of the step, or micro-batch, that the network's random numbers are of: where train.accumulate
  /// has become another, so that none is drawn twice.
  std::int64_t first_draw = 0;
  // Of the moving averages of what a step changes (average_name() below), in [0, 1); 0: there are none. With s the
  // updates done before this one, w' the new value and d the decay:
  //   e' = e + (1 - d_s)(w' - e),  d_0 = 0,  d_s = d, or with the warm-up min(d, 1 - (1 + s)^(-2/3))
  // as torch.optim.swa_utils.AveragedModel and timm's ModelEmaV3 have it. Where the objective reads the averages, d_0
  // is no exception.
  double ema = 0;
  bool ema_warmup = false;
  double ema_end =
      -1;  // where half a cosine wave takes d by the end of the run, at most 1; below 0: it stays
};

/// Which state (i64[], zero at the start) counts the updates of a weight that some of a run's programs train
/// and others do not: by the weight's name. Weights that are not named here count by optimizer.step.
using UpdateCounters = std::map<std::string, std::string, std::less<>>;

/// The trainable parameters that forward reads, in the module's order: what its programs train.
std::vector<std::string> trained_parameters(const ir::Module& module);

/// "ema.<weight>": the state that holds the moving average of a weight, or of a statistic of forward.
std::string average_name(std::string_view weight);
/// What averages are kept of: the trained parameters, and the weights and statistics of a float type that forward
/// hands out new values of.
std::vector<std::string> averaged_parameters(const ir::Module& module);

/// Adds `grad` to a module that has `forward`.
void add_grad_program(ir::Module& module, const TrainOptions& options);
/// Adds `name`(inputs) -> (loss, kGradientPrefix + each trained weight, kForwardPrefix + each result of forward): what
/// programs/diagnose.h looks into. Of an objective whose training takes what evaluation does not, the loss is that of
/// evaluation, and there are no gradients. It is no training program: nothing is dropped, and batch norms take their statistics.
inline constexpr std::string_view kGradientPrefix = "gradient.", kForwardPrefix = "forward.";
void add_observed_program(ir::Module& module, const ir::Selection& objective, const std::string& name);
/// Adds `trace`(inputs) -> (loss, each result of forward whose name begins with kTracePrefix, and with `backward`
/// kGradientPrefix + that name: the gradient of the loss by it, zero where nothing flows). A training program. Where the
/// objective calls the network several times, the values are those of the first call.
inline constexpr std::string_view kTracePrefix = "trace.";
void add_trace_program(ir::Module& module, const TrainOptions& options, bool backward);
/// Adds `step` (or `accumulate` and `apply`), `refresh_first` and `refresh` where the optimizer has them, and the
/// state they need: train.step i64[], rng.seed i64[], train.finite i1[], optimizer.step i64[] (the updates that the
/// moments have seen) and `counters`, the optimizer's own "<optimizer>.<role>.<param>"; with accumulation
/// "accumulate.<param>" and train.micro_step i64[]. Returns what a run of step or accumulate tells: the loss
/// first. UserError on options out of range, by their recipe keys, and on a weight that is not f32.
Metrics add_step_program(ir::Module& module, const TrainOptions& options,
                         const UpdateCounters& counters = {});
/// Adds `eval`, and returns what it tells. `competing`: how many classes `present` names to the program; 0: all compete
/// for a sample. UserError where some are to compete, and the network gives no 'logits' [batch, classes].
Metrics add_eval_program(ir::Module& module, const ir::Selection& objective = {"supervised"},
                         std::int64_t competing = 0);
/// Adds `eval_ema`, which reads the averages instead of what they are of, and tells the same.
Metrics add_average_eval_program(ir::Module& module, const ir::Selection& objective = {"supervised"},
                                 std::int64_t competing = 0);

/// Adds `pictures` of the first `samples` of a batch, where the objective has any, and returns their names in order.
/// `averages`: the weights' averages draw them.
std::vector<std::string> add_pictures_program(ir::Module& module, const ir::Selection& objective,
                                              std::int64_t samples, bool averages);

struct SampleOptions {
  bool guided = false;    // the programs take `guidance` f32[]; the module is of twice as many images
  bool corrects = false;  // there is sample_correct too
  bool averages = false;  // of the weights draw
};
/// Adds the steps of an integration of d image / d time = velocity, `image` and `velocity` f32[batch, …], `time` and `step`
/// f32[], `label` i64[batch]:
///   sample_step(image, time, step, label) -> (image, velocity): v = velocity(image, time), image + step v: Euler's
///   sample_correct(image, time, step, label, before, velocity) -> (image): before + step (velocity + v) / 2, which makes
///   Heun's step of Euler's, where `time` is that of its end
/// UserError where the objective draws no samples.
void add_sample_programs(ir::Module& module, const ir::Selection& objective, const SampleOptions& options);

/// Input::categories of what the module's programs take under this name: the module keeps it as the attribute
/// "categories.<name>". 0: none.
std::int64_t categories(const ir::Module& module, std::string_view input);

/// How many updates lie between two runs of `refresh`; 0: the optimizer has none.
std::int64_t refresh_period(const ir::Selection& optimizer);
/// Which programs run behind the run's update of this number, counted from 1; `begins_phase`: the first one of a phase.
std::vector<std::string> refreshes_behind(std::int64_t update, bool begins_phase, std::int64_t period);

}  // namespace rewire::programs

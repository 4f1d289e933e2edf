// Makes programs of a rewritten forward function: the objective's loss, gradients, optimizer. Everything is
// IR, so every backend runs it. `inputs` are the objective's, `metrics` the results that its metrics name:
//
//   grad(inputs) -> (loss, one result per trainable parameter that forward reads, named by it)
//   trace(inputs) -> (loss, values inside forward, gradients by them)
//   step(inputs) -> (metrics, grad_norm, finite, lr); updates parameters, moments, train.step and
//                         train.finite
//   accumulate(inputs) -> (metrics, finite); apply() -> (grad_norm, finite, lr)
//   fold_0() -> (), fold_1(), …; after the batches of a shard, where a process has several (fold_behind)
//                         step and accumulate also return plain_loss if forward adds terms to the loss, and
//                         forward's reports under their names; forward's side results (ir/side_results.h)
//                         become terms of `loss`, updates, and the weights' values after a step
//   refresh_first() -> (finite), refresh() -> (finite); run after some updates, if the optimizer has them
//   eval(inputs, weight) -> (metrics); is_training is false, and a padding sample has weight 0; if only some
//                         classes compete, it also takes `present` f32[classes], 0 for each other class
//   eval_ema(inputs, weight) -> (metrics), of the weights' averages
//   pictures(inputs) -> (one result per picture of the objective, named by it)
//   sample_step(image, time, step, label) -> (image, velocity), sample_correct(…); if the objective samples
//
// finite is i1[]; lr f32[] is the rate of this step. grad, step and accumulate are training programs:
// dropout draws from (rng.seed, train.step). If a loss or a gradient is not finite, train.finite becomes
// false and stays so: that step and all later ones leave every other state untouched until the host sets it
// to true. The share of training that is done follows from train.step and the Timeline (scheduled_step). As
// with the learning rate's schedule, the Timeline's numbers are constants of the program.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/registry.h"
#include "programs/metric.h"
#include "programs/schedule.h"

namespace rewire::programs {

struct TrainOptions {
  ir::Selection objective{"supervised"}, optimizer{"adamw"}, schedule{"constant"};
  Timeline timeline;       // for the schedule, and for the progress that forward may read
  double clip_norm = 0;    // 0: none; else gradients scale by min(1, clip_norm / (norm + 1e-6)) as PyTorch
  bool clip_each = false;  // clip each gradient by its own norm instead of the norm of all
  std::int64_t accumulate = 1;  // > 1: programs `accumulate` and `apply` instead of one `step`
  /// Parts of a step's batch (train.shards), a power of two: `accumulate` takes one of them. Their gradients are added as
  /// the leaves of a binary tree, neighbours first, so that any number of processes gets the same sums.
  std::int64_t shards = 1;
  std::int64_t own_shards = 1;  // shards that this process computes, a power of two
  /// The weights that this process updates; nothing: all. The others have neither updates nor optimizer states here.
  std::optional<std::set<std::string, std::less<>>> own_weights = {};
  /// Offset of the step or micro-batch number that the network's random numbers depend on. It keeps draws
  /// unique after train.accumulate has changed.
  std::int64_t first_draw = 0;
  // Decay of the moving averages (average_name() below) of all that a step changes, in [0, 1); 0: no
  // averages. With s the updates before this one, w' the new value and d the decay:
  //   e' = e + (1 - d_s)(w' - e),  d_0 = 0,  d_s = d, or with the warm-up min(d, 1 - (1 + s)^(-2/3))
  // as in torch.optim.swa_utils.AveragedModel and timm's ModelEmaV3. If the objective reads the averages,
  // d_0 is computed like every other d_s.
  double ema = 0;
  bool ema_warmup = false;
  double ema_end =
      -1;  // d at the end of the run, at most 1, reached by half a cosine wave; below 0: d stays as it is
};

/// Maps a weight that only some of a run's programs train to the state (i64[], zero at the start) that
/// counts its updates. All other weights use optimizer.step.
using UpdateCounters = std::map<std::string, std::string, std::less<>>;

/// Returns the trainable parameters that forward reads, in module order. The programs train these.
std::vector<std::string> trained_parameters(const ir::Module& module);

/// Returns "ema.<weight>", the state with the moving average of a weight or of a statistic of forward.
std::string average_name(std::string_view weight);
/// Returns the parameters that have averages: the trained ones, and the float weights and statistics for
/// which forward returns new values.
std::vector<std::string> averaged_parameters(const ir::Module& module);

/// Returns the weight whose update changes this parameter: itself, or that of an average or of an optimizer's state; "" if
/// none does.
std::string_view weight_of(const ir::Parameter& state);

/// Adds `grad` to a module that has `forward`.
void add_grad_program(ir::Module& module, const TrainOptions& options);
/// Adds `name`(inputs) -> (loss, kGradientPrefix + each trained weight, kForwardPrefix + each result of
/// forward), for programs/diagnose.h. If the objective's training takes inputs that evaluation lacks, the
/// loss is the evaluation's and there are no gradients. It is not a training program: nothing is dropped,
/// and batch norms use their running statistics.
inline constexpr std::string_view kGradientPrefix = "gradient.", kForwardPrefix = "forward.";
void add_observed_program(ir::Module& module, const ir::Selection& objective, const std::string& name);
/// Adds the training program `trace`(inputs) -> (loss, each result of forward whose name begins with
/// kTracePrefix). With `backward` it also returns kGradientPrefix + that name: the loss's gradient by it,
/// zero if the loss does not depend on it. If the objective calls the network several times, the values are
/// those of the first call.
inline constexpr std::string_view kTracePrefix = "trace.";
void add_trace_program(ir::Module& module, const TrainOptions& options, bool backward);
/// Adds `step` (or `accumulate` and `apply`), the optimizer's `refresh_first` and `refresh` if it has them,
/// and their states: train.step i64[], rng.seed i64[], train.finite i1[], optimizer.step i64[] (the updates
/// that the moments have seen), `counters`, and the optimizer's own "<optimizer>.<role>.<param>"; with
/// accumulation also "accumulate.<param>" and train.micro_step i64[]. Returns the metrics of step or
/// accumulate, the loss first. Throws UserError if an option is out of range, by its recipe key, or if a
/// weight is not f32.
Metrics add_step_program(ir::Module& module, const TrainOptions& options,
                         const UpdateCounters& counters = {});
/// Adds `eval` and returns its metrics. `competing`: the number of classes that `present` selects; 0: all
/// classes compete. Throws UserError if some compete and the network has no 'logits' [batch, classes].
Metrics add_eval_program(ir::Module& module, const ir::Selection& objective = {"supervised"},
                         std::int64_t competing = 0);
/// Adds `eval_ema`, which reads the averages instead of the weights, and returns the same metrics.
Metrics add_average_eval_program(ir::Module& module, const ir::Selection& objective = {"supervised"},
                                 std::int64_t competing = 0);

/// Adds `pictures` of the first `samples` of a batch, if the objective has any, and returns their names in
/// order. `averages`: the weights' averages draw them.
std::vector<std::string> add_pictures_program(ir::Module& module, const ir::Selection& objective,
                                              std::int64_t samples, bool averages);

struct SampleOptions {
  bool guided = false;    // the programs take `guidance` f32[]; the module has twice as many images
  bool corrects = false;  // adds sample_correct too
  bool averages = false;  // the weights' averages draw
};
/// Adds the steps of an integration of d image / d time = velocity. `image` and `velocity` are f32[batch,
/// …], `time` and `step` f32[], `label` i64[batch]:
///   sample_step(image, time, step, label) -> (image, velocity): Euler's step image + step v, and v =
///   velocity(image, time)
///   sample_correct(image, time, step, label, before, velocity) -> (image): Heun's step from Euler's,
///   before + step (velocity + v) / 2; `time` is the time at the step's end
/// Throws UserError if the objective draws no samples.
void add_sample_programs(ir::Module& module, const ir::Selection& objective, const SampleOptions& options);

/// Returns Input::categories of the programs' input of this name, which the module keeps as the attribute
/// "categories.<name>". 0: none.
std::int64_t categories(const ir::Module& module, std::string_view input);

/// The state i64[] with the number of the shard that `accumulate` computes next. A process sets it once to its first.
inline constexpr const char* kShard = "train.shard";
/// Returns the states f32 that this program `accumulate` writes and whose sums over all processes `apply` expects:
/// "accumulate.<weight>", and the new values of what forward updates, of which it takes the mean over the shards.
std::vector<std::string> shard_sums(const ir::Function& accumulate);
/// Returns the program that runs after the process's shard of this number, counted from 0, if it has several.
std::string fold_behind(std::int64_t shard);
std::string fold_program(int level);

/// Returns the number of updates between two runs of `refresh`; 0: the optimizer has none.
std::int64_t refresh_period(const ir::Selection& optimizer);
/// Returns the programs that run after the run's update `update`, counted from 1. `begins_phase`: it is the
/// first update of a phase.
std::vector<std::string> refreshes_behind(std::int64_t update, bool begins_phase, std::int64_t period);

}  // namespace rewire::programs

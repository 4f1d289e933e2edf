#include "runtime/train/run_evaluations.h"

#include <cmath>

#include "programs/objective.h"
#include "runtime/measure/neighbours.h"
#include "runtime/train/run_clock.h"

namespace rewire::runtime {

RunEvaluations::RunEvaluations(const TrainRequest& request, RunPlan& plan, const RunFolder& folder,
                               Engine& engine, TrainObserver& observer, std::int64_t epochs)
    : request_(request),
      plan_(plan),
      engine_(engine),
      observer_(observer),
      loader_(plan.test_data.load()),
      pictures_(plan, folder, engine, epochs) {}

std::optional<Evaluation> RunEvaluations::measure(const Phase& phase) {
  const auto go_on = [&](std::int64_t done) {
    observer_.evaluating(done, loader_->batches_per_epoch());
    return request_.stop_signal() == 0;
  };
  const ir::Module& module = plan_.programs.module;
  std::vector<EvalProgram> evaluated = {{module.function(phase.program("eval")), phase.eval_metrics}};
  if (plan_.keeps_averages())
    evaluated.push_back(
        {module.function(phase.program("eval_ema")), phase.eval_metrics, programs::kOfAverages});
  std::optional<Evaluation> evaluation =
      evaluate(engine_, evaluated, *loader_, go_on, [&](Batch& first) { pictures_.see(phase, first); });
  if (evaluation && !add_neighbours(phase, *evaluation)) return std::nullopt;
  return evaluation;
}

/// Returns false if a signal asks the run to stop meanwhile.
bool RunEvaluations::add_neighbours(const Phase& phase, Evaluation& evaluation) {
  if (plan_.bank_data == nullptr || !std::isfinite(evaluation.loss())) return true;
  const double began = seconds_now();
  const ir::Module& module = plan_.programs.module;
  std::vector<FeatureProgram> programs = {{module.function(phase.program("features"))}};
  if (plan_.keeps_averages())
    programs.push_back({module.function(phase.program("features_ema")), programs::kOfAverages});
  const auto metrics = neighbour_metrics(engine_, programs, *plan_.bank_data, plan_.test_data,
                                         {plan_.recipe.eval.knn, plan_.recipe.eval.knn_images},
                                         [&] { return request_.stop_signal() == 0; });
  if (!metrics) return false;
  evaluation.metrics.insert(evaluation.metrics.end(), metrics->begin(), metrics->end());
  evaluation.seconds += seconds_now() - began;
  return true;
}

}  // namespace rewire::runtime

#include "runtime/train/best_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "programs/objective.h"
#include "runtime/device/log.h"
#include "runtime/run/run_folder.h"

namespace rewire::runtime {

void keep_comparable_best(RunProgress& progress, const RunPlan& plan, const std::string& run) {
  const bool as_before =
      progress.test_data == plan.evaluated && progress.competing == plan.recipe.eval.classes;
  progress.test_data = plan.evaluated;
  progress.competing = plan.recipe.eval.classes;
  std::optional<BestEvaluation>& best = progress.best;
  if (!best || (as_before && best->metric == plan.best_metric)) return;
  write_log(
      LogLevel::warning,
      best->metric != plan.best_metric
          ? fmt::format(
                "{}: the best checkpoint was chosen by {}; now {} decides, beginning with its next value",
                run, best->metric, plan.best_metric)
          : fmt::format("{}: the best checkpoint was chosen by evaluations that differ from the coming ones: "
                        "the next one is the best",
                        run));
  best.reset();
}

bool compare_with_best(RunProgress& progress, const RunPlan& plan, const Evaluation& evaluation) {
  const auto found = std::ranges::find(evaluation.metrics, plan.best_metric, &MetricValue::name);
  const double value = found == evaluation.metrics.end() ? NAN : found->value;
  std::optional<BestEvaluation>& best = progress.best;
  const bool higher = programs::metric_info(plan.best_metric).better == programs::Better::higher;
  if (!std::isfinite(value) || (best && !(higher ? value > best->value : value < best->value))) {
    if (best) ++best->waited;
    return false;
  }
  const TrainPosition& at = progress.position;
  best = {plan.best_metric, value, RunFolder::checkpoint_name(at.epoch + 1, at.step), 0};
  return true;
}

bool out_of_patience(const RunProgress& progress, const RunPlan& plan) {
  const std::int64_t patience = plan.recipe.train.patience;
  return patience > 0 && progress.best && progress.best->waited >= patience;
}

}  // namespace rewire::runtime

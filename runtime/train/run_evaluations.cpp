#include "runtime/train/run_evaluations.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "programs/objective.h"
#include "runtime/measure/neighbours.h"
#include "runtime/train/run_clock.h"

namespace rewire::runtime {
namespace {

/// Returns rank 0's evaluation.
Evaluation of_first(Group& group, Evaluation own) {
  if (group.size() == 1) return own;
  std::string names;
  std::vector<double> values = {static_cast<double>(own.samples), own.seconds};
  for (const MetricValue& metric : own.metrics) {
    names += metric.name + "\n";
    values.push_back(metric.value);
  }
  names = text_of_first(group, names);
  const auto metrics = static_cast<std::size_t>(std::ranges::count(names, '\n'));
  values.resize(metrics + 2);
  group.broadcast(std::as_writable_bytes(std::span(values)));
  Evaluation first{{}, static_cast<std::int64_t>(values[0]), values[1]};
  std::istringstream lines(names);
  for (std::size_t i = 0; i < metrics; ++i) {
    std::getline(lines, first.metrics.emplace_back().name);
    first.metrics.back().value = values[i + 2];
  }
  return first;
}

}  // namespace

RunEvaluations::RunEvaluations(const TrainRequest& request, RunPlan& plan, const RunFolder* folder,
                               Engine& engine, TrainObserver& observer, std::int64_t epochs)
    : request_(request),
      plan_(plan),
      engine_(engine),
      observer_(observer),
      loader_(plan.test_data.load({}, evaluation_share(*request.group))) {
  if (folder != nullptr) pictures_.emplace(plan, *folder, engine, epochs);
}

std::optional<Evaluation> RunEvaluations::measure(const Phase& phase) {
  const auto go_on = [&](std::int64_t done) {
    observer_.evaluating(done, loader_->batches_per_epoch());
    return request_.agreed_stop() == 0;
  };
  const ir::Module& module = plan_.programs.module;
  std::vector<EvalProgram> evaluated = {{module.function(phase.program("eval")), phase.eval_metrics}};
  if (plan_.keeps_averages())
    evaluated.push_back(
        {module.function(phase.program("eval_ema")), phase.eval_metrics, programs::kOfAverages});
  std::optional<Evaluation> evaluation =
      evaluate(engine_, evaluated, *loader_, *request_.group, go_on, [&](Batch& first) {
        if (pictures_) pictures_->see(phase, first);
      });
  if (!evaluation || plan_.bank_data == nullptr) return evaluation;
  // Rank 0 alone compares features. The best checkpoint may depend on its numbers.
  const bool is_whole = !request_.writes() || add_neighbours(phase, *evaluation);
  if (text_of_first(*request_.group, is_whole ? "" : "stopped") == "stopped") return std::nullopt;
  return of_first(*request_.group, *evaluation);
}

/// Returns false if a signal asks the run to stop meanwhile. Signals at other ranks wait.
bool RunEvaluations::add_neighbours(const Phase& phase, Evaluation& evaluation) {
  if (!std::isfinite(evaluation.loss())) return true;
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

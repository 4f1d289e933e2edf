// Programs and data of a run; see run_plan.h.
#include "runtime/train/run_plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "ir/error.h"
#include "runtime/train/neighbours.h"

namespace rewire::runtime {
namespace {

/// The metric that train.best_metric names, or the first. UserError where not every evaluation tells it.
std::string metric_of_best(const Recipe& recipe, const RunPrograms& programs) {
  std::string metric = recipe.train.best_metric;
  if (metric.empty()) metric = programs.phases.front().eval_metrics.front().name;
  for (const Phase& phase : programs.phases) {
    std::vector<std::string> told;
    for (const programs::Metric& one : phase.eval_metrics) told.push_back(one.name);
    for (const char* name : kNeighbourMetrics) {
      if (recipe.eval.knn > 0) told.emplace_back(name);
    }
    for (std::size_t i = 0, count = told.size(); recipe.train.ema != 0 && i < count; ++i)
      told.push_back(std::string(programs::kOfAverages) + told[i]);
    if (std::ranges::find(told, metric) == told.end()) {
      user_error("train.best_metric={}: an evaluation does not tell it{}; it tells {}", metric,
                 did_you_mean(metric, told), fmt::join(told, ", "));
    }
  }
  return metric;
}

/// Of the batch that evaluation has.
std::unique_ptr<const DataFeed> make_bank(Recipe recipe, const NetworkFace& face, std::int64_t batch) {
  if (recipe.eval.knn == 0) return nullptr;
  recipe.eval.batch = batch;
  auto data = std::make_unique<const DataFeed>(recipe, Split::train, face, /*trains=*/false);
  if (data->batch() != batch) {
    user_error(
        "eval.knn={}: a batch of evaluation has {} images, and there are {} to train on: lower eval.batch",
        recipe.eval.knn, batch, data->images());
  }
  return data;
}

/// [diagnose]: how many test images a line is of. UserError where there are not so many, or the network or its
/// objective cannot have them.
std::int64_t images_to_diagnose(const TrainRequest& request, const NetworkFace& face, const DataFeed& tests) {
  const RecipeDiagnose& diagnose = request.recipe.diagnose;
  const bool takes_any = takes_any_batch(request.network);
  const std::int64_t usual = takes_any ? std::min<std::int64_t>(64, tests.images()) : face.batch;
  const std::int64_t images = diagnose.images == 0 ? usual : diagnose.images;
  if (!takes_any && images != face.batch) {
    user_error("diagnose.images={}: the network takes batches of {} images alone: set that, or 0", images,
               face.batch);
  }
  if (images > tests.images()) {
    user_error("diagnose.images={}: {} has {} test images: set so many, or fewer", images,
               tests.source().name(), tests.images());
  }
  return images;
}

}  // namespace

RunPlan::RunPlan(const TrainRequest& request)
    : recipe(request.recipe),
      face(training_face(request.network, recipe.objective)),
      train_data(recipe, Split::train, face),
      test_data(recipe, Split::test, face),
      bank_data(make_bank(recipe, face, test_data.batch())),
      steps_per_epoch(train_data.batches() / recipe.train.accumulate) {
  train_data.log_left_out();
  test_data.log_left_out();
  if (steps_per_epoch == 0) {
    user_error("an epoch has {} batches of {}, fewer than one step of train.accumulate={}",
               train_data.batches(), recipe.train.batch, recipe.train.accumulate);
  }
  if (recipe.diagnose.every > 0) {
    diagnosed_images = images_to_diagnose(request, face, test_data);
    diagnostics = programs::parse_diagnostics(recipe.diagnose.what, "diagnose.what");
  }
  programs = make_run_programs(request.network, train_options(recipe, static_cast<double>(steps_per_epoch)),
                               {.batch = recipe.train.batch,
                                .eval_batch = test_data.batch(),
                                .epochs = recipe.train.epochs,
                                .features = recipe.eval.knn > 0,
                                .pictures = recipe.eval.pictures,
                                .diagnose_batch = diagnosed_images,
                                .diagnostics = diagnostics});
  best_metric = metric_of_best(recipe, programs);
}

std::int64_t RunPlan::steps_per_checkpoint() const {
  const double steps = std::min(recipe.train.checkpoint_every, 1.0) * static_cast<double>(steps_per_epoch);
  return std::max<std::int64_t>(1, std::llround(steps));
}

std::int64_t RunPlan::total_steps() const {
  const std::int64_t all = recipe.train.epochs * steps_per_epoch;
  return recipe.train.max_steps == 0 ? all : std::min(all, recipe.train.max_steps);
}

bool RunPlan::saves_after(std::int64_t epoch) const {
  const auto every =
      static_cast<std::int64_t>(std::llround(std::clamp(recipe.train.checkpoint_every, 1.0, 1e9)));
  return (epoch + 1) % every == 0 || epoch + 1 == recipe.train.epochs;
}

}  // namespace rewire::runtime

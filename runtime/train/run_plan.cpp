// Programs and data of a run; see run_plan.h.
#include "runtime/train/run_plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "ir/error.h"
#include "ir/verify.h"
#include "runtime/device/log.h"
#include "runtime/group/shared_cores.h"
#include "runtime/measure/neighbours.h"

namespace rewire::runtime {
namespace {

/// Returns the metric that train.best_metric names, or the first one. Throws UserError if an
/// evaluation does not compute it.
std::string metric_of_best(const Recipe& recipe, const RunPrograms& programs,
                           const std::vector<std::string>& of_neighbours) {
  std::string metric = recipe.train.best_metric;
  if (metric.empty()) metric = programs.phases.front().eval_metrics.front().name;
  for (const Phase& phase : programs.phases) {
    std::vector<std::string> told;
    for (const programs::Metric& one : phase.eval_metrics) told.push_back(one.name);
    told.insert(told.end(), of_neighbours.begin(), of_neighbours.end());
    for (std::size_t i = 0, count = told.size(); recipe.train.ema != 0 && i < count; ++i)
      told.push_back(std::string(programs::kOfAverages) + told[i]);
    if (std::ranges::find(told, metric) == told.end()) {
      user_error("train.best_metric={}: an evaluation does not compute it{}; it computes {}", metric,
                 did_you_mean(metric, told), fmt::join(told, ", "));
    }
  }
  return metric;
}

/// Returns the training images that eval.knn compares with, in batches of the evaluation's size.
std::unique_ptr<const DataFeed> make_bank(Recipe recipe, const NetworkFace& face, std::int64_t batch,
                                          Target target, int cores) {
  if (recipe.eval.knn == 0) return nullptr;
  recipe.eval.batch = batch;
  auto data = std::make_unique<const DataFeed>(recipe, Split::train, face, /*trains=*/false,
                                               std::vector<std::string>(), target, cores);
  if (data->batch() != batch) {
    user_error(
        "eval.knn={}: an evaluation batch has {} images, but there are only {} to train on: lower eval.batch",
        recipe.eval.knn, batch, data->count());
  }
  return data;
}

/// Returns how many test images a line of [diagnose] covers. Throws UserError if there are fewer, or if the
/// network or its objective cannot take them.
std::int64_t images_to_diagnose(const TrainRequest& request, const NetworkFace& face, const DataFeed& tests) {
  const RecipeDiagnose& diagnose = request.recipe.diagnose;
  const bool takes_any = takes_any_batch(request.network);
  const std::int64_t usual = takes_any ? std::min<std::int64_t>(64, tests.count()) : face.batch;
  const std::int64_t images = diagnose.images == 0 ? usual : diagnose.images;
  if (!takes_any && images != face.batch) {
    user_error("diagnose.images={}: the network only takes batches of {} images: set that, or 0", images,
               face.batch);
  }
  if (images > tests.count()) {
    user_error("diagnose.images={}: {} has {} test images: set at most that many", images,
               tests.source().name(), tests.count());
  }
  return images;
}

/// Returns where a run continues with these data: at the next epoch if they have changed and may do so.
TrainPosition place_with(const DataIdentity& data, const std::string& name, const Recipe& recipe,
                         const RunProgress* start, const std::string& run) {
  if (start == nullptr) return {};
  TrainPosition at = start->position;
  const std::string other = difference(start->data, data);
  if (other.empty()) return at;
  if (recipe.data.changed != "accept") {
    user_error(
        "{}: {} is not the data it was trained on ({}): restore them, or set data.changed=accept to continue "
        "with the next epoch",
        run, name, other);
  }
  const bool skips = at.samples > 0;
  if (skips) at = {at.epoch + 1, 0, at.step, 0, 0};
  if (at.epoch >= recipe.train.epochs) {
    user_error(
        "{}: the data are not those it was trained on ({}), and no epoch is left for them: set more than "
        "train.epochs={}",
        run, other, recipe.train.epochs);
  }
  write_log(
      LogLevel::warning,
      fmt::format("the data are not those the run was trained on ({}): it continues with them in epoch {}{}",
                  other, at.epoch + 1, skips ? ", without the rest of the current epoch" : ""));
  return at;
}

StepSizes sizes_with(const DataIdentity& data, const Recipe& recipe, const TrainPosition& at,
                     const RunProgress* start) {
  if (start == nullptr) return {recipe.train.shard_batch(), recipe.train.shard_batches()};
  StepSizes sizes = changed_sizes(recipe, at, start->sizes, start->epochs_done, start->data != data);
  if (!sizes.change) return sizes;
  // train.epochs may have changed too: the schedule does not go back.
  const double done = RunCourse(recipe, data.count, at, sizes).epochs_done(at.step);
  if (std::abs(done - start->epochs_done) > 1e-9) sizes.change = {at.step, start->epochs_done};
  return sizes;
}

}  // namespace

RunPlan::RunPlan(const TrainRequest& request, const RunProgress* start, const std::string& run)
    : recipe(request.recipe),
      rank(request.group->rank()),
      ranks(request.group->size()),
      cores(own_cores(*request.group)),
      face(training_face(request.network, recipe.objective)),
      train_data(recipe, Split::train, face, /*trains=*/true, {}, target_of(request.engine), cores),
      test_data(recipe, Split::test, face, /*trains=*/false, {}, target_of(request.engine), cores),
      bank_data(make_bank(recipe, face, test_data.batch(), target_of(request.engine), cores)),
      data(train_data.source().identity()),
      evaluated(test_data.source().identity()),
      begins(place_with(data, train_data.source().name(), recipe, start, run)),
      sizes(sizes_with(data, recipe, begins, start)),
      course(recipe, data.count, begins, sizes) {
  const std::int64_t shards = recipe.train.shard_count();
  if (shards % ranks != 0)
    user_error(
        "train.shards={} cannot be shared out to {} processes: start {} or fewer, or --set train.shards={}",
        shards, ranks, shards, ranks);
  if (shards > 1 && !takes_any_batch(request.network)) {
    user_error("train.shards={}: the network takes batches of {} alone, which cannot be divided",
               recipe.train.shard_count(), face.batch);
  }
  train_data.log_left_out();
  test_data.log_left_out();
  if (start != nullptr && sizes.samples() != start->sizes.samples())
    write_log(LogLevel::info, describe_change(course, begins, start->sizes, sizes));
  if (start != nullptr && start->test_data != evaluated) {
    write_log(LogLevel::warning,
              fmt::format("the test samples differ from those of the run's earlier evaluations ({})",
                          difference(start->test_data, evaluated)));
  }
  if (recipe.diagnose.every > 0) {
    diagnosed_images = images_to_diagnose(request, face, test_data);
    diagnostics = programs::parse_diagnostics(recipe.diagnose.what, "diagnose.what");
  }
  programs::TrainOptions options = train_options(recipe, course.timeline().steps_per_epoch);
  options.timeline = course.timeline();
  options.first_draw = sizes.first_draw;
  options.own_shards = own_shards();
  const RunShape shape{.batch = recipe.train.shard_batch(),
                       .eval_batch = test_data.batch(),
                       .epochs = recipe.train.epochs,
                       .features = recipe.eval.knn > 0,
                       .competing = test_data.competing(),
                       .pictures = recipe.eval.pictures,
                       .diagnose_batch = diagnosed_images,
                       .diagnostics = diagnostics};
  programs = make_run_programs(request.network, options, shape);
  take_bytes();
  if (recipe.train.zero == 1 && ranks > 1) shares = share_out(request.network, options, shape);
  best_metric =
      metric_of_best(recipe, programs,
                     bank_data ? neighbour_metric_names(*bank_data, test_data) : std::vector<std::string>{});
}

/// Sampling and diagnoses have inputs of their own, and take floats.
void RunPlan::take_bytes() {
  for (const Phase& phase : programs.phases) {
    for (const char* kind : {"step", "accumulate"})
      train_data.take_bytes(programs.module, phase.program(kind));
    for (const char* kind : {"eval", "eval_ema", "features", "features_ema", "pictures"})
      test_data.take_bytes(programs.module, phase.program(kind));
  }
  ir::verify(programs.module);
}

RunPlan::Shares RunPlan::share_out(const NetworkSource& network, programs::TrainOptions options,
                                   const RunShape& shape) const {
  Shares made{owners_of_weights(programs.module, ranks), programs.module, {}, {}};
  // What programs have that update no weight, all ranks need.
  options.own_weights.emplace();
  const ir::Module of_all = make_run_programs(network, options, shape).module;
  for (const ir::Parameter& state : programs.module.parameters) {
    const auto owner = made.owners.find(programs::weight_of(state));
    if (owner == made.owners.end()) continue;
    const bool is_sent = of_all.find_parameter(state.name) != nullptr;
    if (is_sent) made.sent.insert(state.name);
    if (owner->second == rank) continue;
    made.others.updated.insert(state.name);
    if (!is_sent) made.others.absent.insert(state.name);
  }
  // A refresh says whether all states that it makes are finite, so it has to be made for the own ones alone.
  for (const auto& [weight, owner] : made.owners)
    if (owner == rank) options.own_weights->insert(weight);
  const ir::Module own = make_run_programs(network, options, shape).module;
  for (ir::Function& function : made.module.functions)
    if (function.name.starts_with("refresh")) function = own.function(function.name);
  return made;
}

LoaderShare RunPlan::share() const {
  const std::int64_t own = own_shards() * recipe.train.accumulate;
  return {rank * own, own, ranks * own};
}

std::int64_t RunPlan::steps_per_checkpoint() const {
  const double steps = std::min(recipe.train.checkpoint_every, 1.0) * course.timeline().steps_per_epoch;
  return std::max<std::int64_t>(1, std::llround(steps));
}

bool RunPlan::saves_after(std::int64_t epoch) const {
  const auto every =
      static_cast<std::int64_t>(std::llround(std::clamp(recipe.train.checkpoint_every, 1.0, 1e9)));
  return (epoch + 1) % every == 0 || epoch + 1 == recipe.train.epochs;
}

}  // namespace rewire::runtime

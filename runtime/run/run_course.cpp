#include "runtime/run/run_course.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/error.h"

namespace rewire::runtime {

RunCourse::RunCourse(const Recipe& recipe, std::int64_t samples, const TrainPosition& at,
                     const StepSizes& sizes)
    : epochs_(recipe.train.epochs),
      max_steps_(recipe.train.max_steps),
      samples_(samples),
      step_samples_(sizes.samples()),
      at_(at),
      steps_per_epoch_(samples / sizes.samples()) {
  if (steps_per_epoch_ == 0) {
    const std::int64_t shards = recipe.train.shard_count();
    user_error("an epoch has {} batches of {}, fewer than one step of train.accumulate={}",
               samples / (sizes.batch * shards), sizes.batch * shards, sizes.accumulate / shards);
  }
  timeline_.steps_per_epoch = static_cast<double>(steps_per_epoch_);
  timeline_.total_steps = timeline_.steps(static_cast<double>(epochs_));
  if (!sizes.change) return;
  const double place = sizes.change->epochs * timeline_.steps_per_epoch;
  const std::int64_t end = last_step();
  const auto left = static_cast<double>(end - sizes.change->step);
  const double to_go = static_cast<double>(timeline_.total_steps) - place;
  timeline_.change = {sizes.change->step, place, left > 0 ? std::max(to_go, 0.0) / left : 0};
}

std::int64_t RunCourse::steps_of(std::int64_t epoch) const {
  return epoch != at_.epoch
             ? steps_per_epoch_
             : at_.step_in_epoch + std::max<std::int64_t>(samples_ - at_.samples, 0) / step_samples_;
}

std::int64_t RunCourse::last_step() const {
  if (at_.epoch >= epochs_) return at_.step;
  return at_.step + steps_of(at_.epoch) - at_.step_in_epoch + (epochs_ - at_.epoch - 1) * steps_per_epoch_;
}

std::int64_t RunCourse::total_steps() const {
  return max_steps_ == 0 ? last_step() : std::min(last_step(), max_steps_);
}

std::int64_t RunCourse::epochs_begun() const {
  if (at_.epoch >= epochs_) return epochs_;
  const std::int64_t beyond = total_steps() - at_.step - (steps_of(at_.epoch) - at_.step_in_epoch);
  const std::int64_t begun =
      at_.epoch + 1 + std::max<std::int64_t>(beyond + steps_per_epoch_ - 1, 0) / steps_per_epoch_;
  return at_.step_in_epoch == 0 && total_steps() == at_.step ? at_.epoch : begun;
}

std::int64_t RunCourse::dropped(std::int64_t epoch) const {
  return std::max<std::int64_t>(samples_ - (epoch == at_.epoch ? at_.samples : 0), 0) % step_samples_;
}

StepSizes changed_sizes(const Recipe& recipe, const TrainPosition& at, const StepSizes& before,
                        double epochs_done, bool other_data) {
  StepSizes now = before;
  now.batch = recipe.train.shard_batch();
  now.accumulate = recipe.train.shard_batches();
  if (before.batch == 0) return now;
  if (now.samples() != before.samples() || other_data) now.change = {at.step, epochs_done};
  now.first_draw = before.first_draw + at.step * (before.accumulate - now.accumulate);
  return now;
}

std::string describe_change(const RunCourse& course, const TrainPosition& at, const StepSizes& before,
                            const StepSizes& now) {
  const auto step = [](const StepSizes& sizes) {
    return sizes.accumulate == 1 ? fmt::format("{}", sizes.batch)
                                 : fmt::format("{} x {}", sizes.accumulate, sizes.batch);
  };
  const std::int64_t dropped = course.dropped(at.epoch);
  return fmt::format(
      "a step takes {} samples instead of {}: epoch {} continues after its sample {}, {} of its samples {} "
      "left over at its end; the schedule continues from {:.1f} % of the run, which ends with step {}",
      step(now), step(before), at.epoch + 1, at.samples, dropped, dropped == 1 ? "is" : "are",
      100 * course.epochs_done(at.step) /
          (static_cast<double>(course.timeline().total_steps) / course.timeline().steps_per_epoch),
      course.total_steps());
}

}  // namespace rewire::runtime

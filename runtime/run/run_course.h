// Divides the samples of a run's epochs into steps, from a position in it, where the batch may have changed,
// to its end.
//
// No sample is seen twice in an epoch. Samples left over at the end of an epoch, fewer than a step takes,
// are dropped. If the samples per step change inside a run, its schedule goes on from the share that is
// done, and grows evenly with the steps to the run's end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "programs/schedule.h"
#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

/// A position in a run. If step_in_epoch is all steps of an epoch, its evaluation is still to come.
struct TrainPosition {
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;
  std::int64_t step = 0;     // optimizer steps done
  std::int64_t batches = 0;  // micro-batches of this epoch
  std::int64_t samples = 0;  // samples of this epoch
  bool operator==(const TrainPosition&) const = default;
};

/// Returns the last epoch that was trained in, whole or in part.
inline std::int64_t last_epoch(const TrainPosition& at) {
  return at.step_in_epoch > 0 || at.epoch == 0 ? at.epoch : at.epoch - 1;
}

/// The sizes of a step, and the last change of them.
struct StepSizes {
  /// Samples of a batch that a program takes at once, over all ranks, and such batches a step. 0: no step has been done.
  std::int64_t batch = 0, accumulate = 1;
  /// The last step at which batch * accumulate, or the data, changed, and the epochs of the schedule done
  /// there.
  struct Change {
    std::int64_t step = 0;
    double epochs = 0;
    bool operator==(const Change&) const = default;
  };
  std::optional<Change> change = std::nullopt;
  std::int64_t first_draw = 0;  // programs::TrainOptions::first_draw
  bool operator==(const StepSizes&) const = default;

  std::int64_t samples() const { return batch * accumulate; }
};

class RunCourse {
 public:
  /// `samples`: of an epoch. Throws UserError if an epoch has too few for a step.
  RunCourse(const Recipe& recipe, std::int64_t samples, const TrainPosition& at, const StepSizes& sizes);

  /// The steps of a whole epoch with these batches.
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Returns the steps of an epoch from `at.epoch` on.
  std::int64_t steps_of(std::int64_t epoch) const;
  /// Returns the steps of the whole run: train.epochs, or train.max_steps if that is less.
  std::int64_t total_steps() const;
  /// Returns the number of epochs that these steps begin.
  std::int64_t epochs_begun() const;
  /// Returns the samples left over at the end of an epoch.
  std::int64_t dropped(std::int64_t epoch) const;
  const programs::Timeline& timeline() const { return timeline_; }
  /// Returns the epochs of the schedule that are done.
  double epochs_done(std::int64_t step) const {
    return timeline_.scheduled(step) / timeline_.steps_per_epoch;
  }

 private:
  std::int64_t last_step() const;  // with train.epochs

  std::int64_t epochs_, max_steps_, samples_, step_samples_;
  TrainPosition at_;
  std::int64_t steps_per_epoch_ = 0;
  programs::Timeline timeline_;
};

/// Returns the recipe's sizes from here on, for a run that reached `at` with sizes `before` and
/// `epochs_done` of its schedule. `other_data`: its samples have changed too.
StepSizes changed_sizes(const Recipe& recipe, const TrainPosition& at, const StepSizes& before,
                        double epochs_done, bool other_data);

/// Describes in one line how a run continues with changed batches.
std::string describe_change(const RunCourse& course, const TrainPosition& at, const StepSizes& before,
                            const StepSizes& now);

}  // namespace rewire::runtime

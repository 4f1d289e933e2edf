// The evaluations of a run.
#pragma once

#include <memory>
#include <optional>

#include "runtime/data/loader.h"
#include "runtime/exec/engine.h"
#include "runtime/measure/metrics.h"
#include "runtime/train/run_pictures.h"
#include "runtime/train/run_plan.h"
#include "runtime/train/trainer.h"

namespace rewire::runtime {

class RunEvaluations {
 public:
  /// Removes the pictures of epochs after the first `epochs`. Without a folder no pictures are drawn. All arguments must
  /// outlive it.
  RunEvaluations(const TrainRequest& request, RunPlan& plan, const RunFolder* folder, Engine& engine,
                 TrainObserver& observer, std::int64_t epochs);

  /// Evaluates the weights, and their averages if the run keeps them, on the test data, with nearest neighbours if the
  /// recipe asks for them and the loss is finite. All ranks get the same. Nothing if a signal asks the run to stop
  /// meanwhile.
  std::optional<Evaluation> measure(const Phase& phase);
  /// Draws the pictures of the last measure(). UserError if they cannot be written.
  std::optional<RunPicture> draw(const Phase& phase, std::int64_t epoch) {
    return pictures_ ? pictures_->write(phase, epoch) : std::nullopt;
  }

 private:
  bool add_neighbours(const Phase& phase, Evaluation& evaluation);

  const TrainRequest& request_;
  RunPlan& plan_;
  Engine& engine_;
  TrainObserver& observer_;
  std::unique_ptr<Loader> loader_;
  std::optional<RunPictures> pictures_;
};

}  // namespace rewire::runtime

// The steps of a run, from its state to its end: batches, metrics, evaluations, checkpoints.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/exec/engine.h"
#include "runtime/run/checkpoint.h"
#include "runtime/run/run_folder.h"
#include "runtime/train/run_plan.h"
#include "runtime/train/trainer.h"

namespace rewire::runtime {

class RunLoop {
 public:
  /// Loads `start` into an engine that has compiled the run's programs, in the folder `path`. Rank 0 also has it as
  /// `folder`, which no other process uses, and cuts the metrics at `start`. All but `engine` and `start` must outlive
  /// it. Throws UserError if the metrics cannot be written. `checkpointed` is called when a checkpoint of what the plan
  /// changes is first written.
  RunLoop(const TrainRequest& request, RunPlan& plan, const std::string& path, RunFolder* folder,
          TrainObserver& observer, std::unique_ptr<Engine> engine, Checkpoint start,
          std::function<void()> checkpointed = {});
  ~RunLoop();
  /// Trains until the last epoch, train.max_steps or a signal ends it. Throws UserError if a step is not
  /// finite, or nothing can be written.
  TrainResult finish();

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace rewire::runtime

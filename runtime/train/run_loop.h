// The steps of a run, from where its state stands to the end: batches, metrics, evaluations, checkpoints.
#pragma once

#include <functional>
#include <memory>

#include "runtime/exec/engine.h"
#include "runtime/run/checkpoint.h"
#include "runtime/run/run_folder.h"
#include "runtime/train/run_plan.h"
#include "runtime/train/trainer.h"

namespace rewire::runtime {

class RunLoop {
 public:
  /// In a folder that the run has to itself, with an engine that has compiled its programs: puts the state
  /// into it, and cuts the metrics off where `start` stands. All but `engine` and `start` must outlive it.
  /// UserError where the metrics cannot be written.
  /// `checkpointed` is called when a checkpoint of what the plan changes is written for the first time.
  RunLoop(const TrainRequest& request, RunPlan& plan, RunFolder& folder, TrainObserver& observer,
          std::unique_ptr<Engine> engine, Checkpoint start, std::function<void()> checkpointed = {});
  ~RunLoop();
  /// Trains until the last epoch, train.max_steps or a signal ends it. UserError where a step is not finite,
  /// and where nothing can be written.
  TrainResult finish();

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace rewire::runtime

// The training steps under way on an engine. A device gets its next runs before the results of the last are read.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/loader.h"
#include "runtime/exec/engine.h"
#include "runtime/group/group.h"
#include "runtime/measure/metrics.h"
#include "runtime/train/run_plan.h"
#include "runtime/train/shard_sums.h"
#include "runtime/train/weight_shares.h"

namespace rewire::runtime {

/// The results of one step, over all of its batches.
struct StepResults {
  MetricSums metrics;
  double lr = 0, grad_norm = 0;
};

/// Thrown where the loss or a gradient of a step is not finite, on all ranks. That rank has the program that found it and
/// its inputs.
struct NonFiniteStep {
  std::string program;
  TensorMap inputs;
  int rank = 0;
};

class StepPipeline {
 public:
  /// `finished` is called for each step in order. All but it must outlive the pipeline.
  StepPipeline(Engine& engine, RunPlan& plan, Group& group, std::function<void(const StepResults&)> finished);

  /// Moves on to `wanted` in the training data, the beginning of a step.
  void open(const DataPosition& wanted);
  /// Submits the runs of step `number` of the run, counted from 1, and reads the results that are there. All ranks call
  /// it together. Throws NonFiniteStep.
  void submit(const Phase& phase, std::int64_t number, bool begins_phase);
  /// Waits for every step under way. Throws NonFiniteStep.
  void drain() { settle(0); }

  /// Returns the states that other ranks alone have, on rank 0. All ranks call it.
  TensorMap collect() { return shares_->collect(); }

  bool idle() const { return pending_.empty(); }
  /// Seconds in which a batch was not there yet.
  double data_wait_seconds() const { return data_wait_seconds_; }

 private:
  /// A submitted run. Its inputs are kept for a replay.
  struct Pending {
    Engine::Ticket ticket;
    const Phase* phase;
    std::string program;
    TensorMap inputs;
    bool ends_step;
  };

  void submit(const Phase& phase, const std::string& kind, TensorMap inputs, bool ends_step);
  void submit_batches(const Phase& phase);
  void submit_shared(const Phase& phase);
  void gather_metrics(const programs::Metrics& metrics);
  void settle(std::size_t ahead);
  void read(Pending run);
  Batch next_batch();

  Engine& engine_;
  RunPlan& plan_;
  Group& group_;
  std::map<const Phase*, std::unique_ptr<StateSums>> sums_;
  std::optional<WeightShares> shares_;
  std::function<void(const StepResults&)> finished_;
  std::unique_ptr<Loader> loader_;
  std::deque<Pending> pending_;
  std::vector<Batch> spare_;         // memory of batches that were read
  MetricSums step_;                  // of the step whose results are being read
  std::vector<MetricSums> batches_;  // of each own batch of that step, where other ranks have more
  double data_wait_seconds_ = 0;
};

}  // namespace rewire::runtime

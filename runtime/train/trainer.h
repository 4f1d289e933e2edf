// The training loop: it trains on batches and writes a run folder. It works with modules, engines and
// batches; an observer shows its progress.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/exec/make_engine.h"
#include "runtime/group/agreement.h"
#include "runtime/network/run_programs.h"
#include "runtime/recipe/recipe.h"
#include "runtime/run/checkpoint.h"

namespace rewire::runtime {

struct TrainRequest {
  Recipe recipe;  // resolved: the run folder's recipe
  NetworkSource network;
  std::string module_text;              // of a network outside the zoo; kept as RUN/network.rir
  std::string engine;                   // one of engine_names()
  ChoiceOptions choices;                // of a new run; a resumed run has its own
  std::vector<KernelOverride> kernels;  // of a new run; a resumed run has its own
  bool trust = false;                   // consent to run the kernels that a resumed run keeps
  /// Called when everything is compiled and nothing is written yet, then before every step and before every
  /// batch of an evaluation. Returns the number of a signal that asks the run to save and stop, or 0 to
  /// continue.
  std::function<int()> stop_signal = [] { return 0; };
  /// The processes that train together. All make the same request; rank 0 alone has the folder and writes.
  Group* group = &alone();

  bool writes() const { return group->rank() == 0; }
  /// Returns the stop_signal() of the first rank that has one, on all ranks, which call it together.
  int agreed_stop() const { return agreed_signal(*group, stop_signal()); }
};

/// Sets train.shards, if the recipe leaves it open, to the number of processes of a new run. Throws UserError as
/// check_shards().
void settle_shards(Recipe& recipe, const Group& group, bool resumes);

/// The content of a progress line, after a step or after a line of metrics.
struct TrainView {
  TrainPosition position;
  std::int64_t epochs = 0, steps_per_epoch = 0;
  MetricValues metrics;           // means; the first is the loss
  double samples_per_second = 0;  // of the step, or over the line of metrics
  double seconds_left = 0;        // of the whole run, evaluations included
};

struct EpochReport {
  std::int64_t epoch = 0, epochs = 0;    // epoch counts from 0
  MetricValues metrics;                  // means over the epoch's steps
  std::optional<Evaluation> evaluation;  // if one was due
  double seconds = 0;                    // spent in this epoch's steps by this process
};

/// Facts that are known before the first step.
struct RunFacts {
  std::string run;
  TrainPosition position;
  std::int64_t weights = 0;  // the number of trained elements
  std::int64_t train_samples = 0, test_samples = 0;
  std::int64_t dropped = 0;  // training samples left over at the end of an epoch
  std::int64_t epochs = 0, steps_per_epoch = 0;
  std::int64_t steps = 0;  // of the whole run
};

class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// Called before this program is compiled. All programs are compiled before the run starts.
  virtual void compiling(const std::string& program) = 0;
  virtual void started(const RunFacts& facts) = 0;
  virtual void stepped(const TrainView& view) = 0;
  /// Called after a line of metrics was written; `view` has its means.
  virtual void logged(const TrainView& view) = 0;
  virtual void evaluating(std::int64_t done, std::int64_t batches) = 0;
  virtual void epoch_done(const EpochReport& report) = 0;
  /// Called if a step was not finite, before it is replayed in double precision, which takes a while.
  virtual void replaying(const std::string& program) = 0;
};

struct TrainResult {
  std::string run;
  TrainPosition position;
  /// The signal that stopped the run; 0: it is complete. If `run` is empty, the signal came before the
  /// first step of a new run, and there is no run folder.
  int stopped_by = 0;
  std::optional<Evaluation> evaluation;  // of a complete run
  double train_loss = 0;                 // mean over the last epoch's steps so far, with label smoothing
  double samples_per_second = 0;         // over all steps, without evaluations and compiling
  double train_seconds = 0;              // spent in steps
  double new_train_seconds = 0;          // the part of it since this process began
  double data_wait_seconds = 0;          // the part of new_train_seconds spent waiting for data
  std::int64_t unreadable_samples = 0;   // left out of training and evaluation
  std::int64_t peak_memory_bytes = 0;
};

/// If the folder `out` exists, exact refuses it, and numbered appends a number to the name.
enum class OutFolder : std::uint8_t { exact, numbered };

/// Trains a new run in the folder `out`. Everything that may be refused is checked before the folder is
/// made, and a run that fails before its first result leaves no folder. Throws UserError. A step whose loss
/// or gradient is not finite ends the run. The error names the first tensor that is not finite, and the
/// last checkpoint holds the state before that step.
TrainResult train(const TrainRequest& request, const std::string& out, OutFolder kind,
                  TrainObserver& observer);

/// Continues a run from its last checkpoint. It ends with the same bits as a run that was never stopped.
TrainResult resume_training(const TrainRequest& request, const std::string& run, TrainObserver& observer);

}  // namespace rewire::runtime

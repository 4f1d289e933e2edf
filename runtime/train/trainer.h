// The training loop: batches in, a run folder out. It handles modules, engines and batches; an observer
// shows its progress.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/exec/make_engine.h"
#include "runtime/network/run_programs.h"
#include "runtime/recipe/recipe.h"
#include "runtime/run/checkpoint.h"

namespace rewire::runtime {

struct TrainRequest {
  Recipe recipe;  // resolved: the run folder's recipe
  NetworkSource network;
  std::string module_text;              // text of a network outside the zoo: kept as RUN/network.rir
  std::string engine;                   // one of engine_names()
  ChoiceOptions choices;                // a resumed run uses its own instead
  std::vector<KernelOverride> kernels;  // a resumed run uses its own instead
  bool trust = false;                   // runs the kernels of a resumed run
  /// Called first when all is compiled and before anything is written, then before every step and every
  /// batch of an evaluation. Returns the number of a signal that asks the run to save and stop, 0 to go on.
  std::function<int()> stop_signal = [] { return 0; };
};

/// The content of a progress line, for a step or a line of metrics.
struct TrainView {
  TrainPosition position;
  std::int64_t epochs = 0, steps_per_epoch = 0;
  MetricValues metrics;           // means; the first is the loss
  double samples_per_second = 0;  // recent, or over the line
  double seconds_left = 0;        // of the whole run, evaluations included
};

struct EpochReport {
  std::int64_t epoch = 0, epochs = 0;    // epoch counts from 0
  MetricValues metrics;                  // means over the epoch's steps
  std::optional<Evaluation> evaluation;  // if one was due
  double seconds = 0;                    // of this epoch's steps in this process
};

/// Facts that are known before the first step.
struct RunFacts {
  std::string run;
  TrainPosition position;
  std::int64_t weights = 0;  // numbers that are trained
  std::int64_t train_samples = 0, test_samples = 0;
  std::int64_t dropped = 0;  // training samples left over at the end of an epoch
  std::int64_t epochs = 0, steps_per_epoch = 0;
  std::int64_t steps = 0;  // of the whole run
};

class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// The run compiles this program; it compiles all of them before it starts.
  virtual void compiling(const std::string& program) = 0;
  virtual void started(const RunFacts& facts) = 0;
  virtual void stepped(const TrainView& view) = 0;
  /// A line of metrics was written: `view` has its means.
  virtual void logged(const TrainView& view) = 0;
  virtual void evaluating(std::int64_t done, std::int64_t batches) = 0;
  virtual void epoch_done(const EpochReport& report) = 0;
  /// A step was not finite and is replayed in double precision, which takes a while.
  virtual void replaying(const std::string& program) = 0;
};

struct TrainResult {
  std::string run;
  TrainPosition position;
  /// The signal, or 0: the run is complete. If `run` is empty, the signal came before a new run's first
  /// step, and nothing is left of it.
  int stopped_by = 0;
  std::optional<Evaluation> evaluation;  // of a complete run
  double train_loss = 0;          // mean of the last epoch's steps so far, as trained (with label smoothing)
  double samples_per_second = 0;  // over all steps, without evaluations and compiling
  double train_seconds = 0;       // spent in steps
  double new_train_seconds = 0;   // of them, since the run was begun or resumed
  double data_wait_seconds = 0;   // of these, waiting for a batch
  std::int64_t unreadable_samples = 0;  // left out of training and evaluation
  std::int64_t peak_memory_bytes = 0;
};

/// The treatment of an existing `out`: refuse it, or append a number to the name.
enum class OutFolder : std::uint8_t { exact, numbered };

/// Trains a new run in the folder `out`. All refusals come before the folder is made; a run that fails
/// before it has any result leaves none. Throws UserError. A step whose loss or gradient is not finite ends
/// the run: the error names the first such tensor, and the last checkpoint is the state before that step.
TrainResult train(const TrainRequest& request, const std::string& out, OutFolder kind,
                  TrainObserver& observer);

/// Continues a run from its last checkpoint, to the same bits that it would have reached without a stop.
TrainResult resume_training(const TrainRequest& request, const std::string& run, TrainObserver& observer);

}  // namespace rewire::runtime

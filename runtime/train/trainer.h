// The training loop: batches in, a run folder out. It sees modules, engines and batches; what a person sees
// of it is an observer's work.
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
  Recipe recipe;  // resolved: what the run folder keeps
  NetworkSource network;
  std::string module_text;              // of a network that is no model of the zoo: kept as RUN/network.rir
  std::string engine;                   // of engine_names()
  ChoiceOptions choices;                // a resumed run has its own, and takes those
  std::vector<KernelOverride> kernels;  // likewise
  bool trust = false;                   // those that a resumed run brings are run
  /// Asked first when all is compiled and before anything is written, then before every step and after every
  /// batch of an evaluation: the number of a signal that asks the run to save and stop, 0 to go on.
  std::function<int()> stop_signal = [] { return 0; };
};

/// What a progress line shows, of a step or of a line of metrics.
struct TrainView {
  TrainPosition position;
  std::int64_t epochs = 0, steps_per_epoch = 0;
  MetricValues metrics;           // means; the first is the loss
  double samples_per_second = 0;  // of late, or over the line
  double seconds_left = 0;        // of the whole run, evaluations included
};

struct EpochReport {
  std::int64_t epoch = 0, epochs = 0;    // epoch counts from 0
  MetricValues metrics;                  // means over the epoch's steps
  std::optional<Evaluation> evaluation;  // if it was time for one
  double seconds = 0;                    // of this epoch's steps in this process
};

/// What is known before the first step.
struct RunFacts {
  std::string run;
  TrainPosition position;
  std::int64_t weights = 0;  // numbers that are trained
  std::int64_t train_samples = 0, test_samples = 0;
  std::int64_t dropped = 0;  // training samples that are left over at the end of an epoch
  std::int64_t epochs = 0, steps_per_epoch = 0;
  std::int64_t steps = 0;  // of the whole run
};

class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// All programs that the run will take, before it starts.
  virtual void compiling(const std::string& program) = 0;
  virtual void started(const RunFacts& facts) = 0;
  virtual void stepped(const TrainView& view) = 0;
  /// A line of metrics was written: `view` has its means.
  virtual void logged(const TrainView& view) = 0;
  virtual void evaluating(std::int64_t done, std::int64_t batches) = 0;
  virtual void epoch_done(const EpochReport& report) = 0;
  /// A step was not finite and is being replayed in double precision; that takes a while.
  virtual void replaying(const std::string& program) = 0;
};

struct TrainResult {
  std::string run;
  TrainPosition position;
  /// The signal, or 0: the run is complete. Where `run` is empty, it came before the first step of a new run,
  /// of which nothing is left.
  int stopped_by = 0;
  std::optional<Evaluation> evaluation;  // of a complete run
  double train_loss = 0;  // mean of the last epoch's steps so far, as trained (label smoothing and all)
  double samples_per_second = 0;        // over all steps, evaluations and compiling apart
  double train_seconds = 0;             // spent in steps
  double new_train_seconds = 0;         // of them, since the run was begun or resumed
  double data_wait_seconds = 0;         // of these, those in which a batch was not there yet
  std::int64_t unreadable_samples = 0;  // left out of training and evaluation
  std::int64_t peak_memory_bytes = 0;
};

/// What to do where `out` is taken: refuse, or put a number behind it.
enum class OutFolder : std::uint8_t { exact, numbered };

/// A new run in the folder `out`. All that can be refused is refused before the folder is made; a run that
/// fails before it has anything to show leaves none behind. UserError; a step whose loss or gradient is not
/// finite ends the run: the error names the first tensor that is not, and the last checkpoint is the state
/// before that step.
TrainResult train(const TrainRequest& request, const std::string& out, OutFolder kind,
                  TrainObserver& observer);

/// Goes on with a run from its last checkpoint to the same bits that it would have reached without a stop.
TrainResult resume_training(const TrainRequest& request, const std::string& run, TrainObserver& observer);

}  // namespace rewire::runtime

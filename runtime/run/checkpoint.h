// The state that the next step of a run depends on, as a folder that appears whole or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/module.h"
#include "runtime/data/identity.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/io/host_tensor.h"
#include "runtime/io/safetensors.h"
#include "runtime/measure/metrics.h"
#include "runtime/plugin/builds.h"
#include "runtime/plugin/plugin.h"
#include "runtime/run/run_course.h"
#include "runtime/run/run_folder.h"

namespace rewire::runtime {

/// Sums over steps, for a mean.
struct TrainSums {
  std::int64_t steps = 0;
  double grad_norm = 0;
  MetricSums metrics = {};
};

/// The best evaluation at the end of an epoch so far, by one metric.
struct BestEvaluation {
  std::string metric;
  double value = 0;
  std::string checkpoint;   // "0003-00002811", which has that state
  std::int64_t waited = 0;  // evaluations since, none of which was better
};

/// The position in a run's event files (run_events.h): the step after which the newest begins, and its
/// bytes.
struct EventsPosition {
  std::int64_t from_step = 0, bytes = 0;
};

/// The content of a checkpoint beside the tensors.
struct RunProgress {
  TrainPosition position;
  StepSizes sizes;                 // of its steps
  double epochs_done = 0;          // epochs of the schedule that are done
  DataIdentity data;               // the data that it trains on
  DataIdentity test_data;          // the data that it is evaluated on
  std::string competing;           // eval.classes
  TrainSums line;                  // since the last line of metrics.jsonl
  TrainSums epoch;                 // since the epoch began
  std::int64_t metrics_bytes = 0;  // size of metrics.jsonl at this point
  EventsPosition events;           // their position at this point
  std::int64_t samples = 0;        // samples trained on, over all sessions
  double lr = 0;                   // learning rate of the last step
  double last_epoch_loss = 0;      // mean over the steps of the last whole epoch
  double train_seconds = 0;        // spent in steps, over all sessions
  ChoiceRecord choices;            // choices of all programs
  std::optional<BestEvaluation> best;
};

struct Checkpoint {
  RunProgress progress;
  TensorMap state;  // weights and all other state
};

/// Writes RUN/checkpoints/<epoch>-<step> from the engine's state and returns its path; an existing one
/// stays. `metadata`: of its files of weights. `elsewhere`: states of the module that the engine lacks. On failure throws UserError with the file and the system's
/// reason, and leaves nothing of it.
std::string write_checkpoint(const std::string& run, const RunProgress& progress, const Engine& engine,
                             const ir::Module& module, const std::vector<PluginHandle>& plugins,
                             const std::map<std::string, std::string>& metadata, TensorMap elsewhere = {});

/// A file of the checkpoint is not the one that was written: flipped bits, a block of zeros, a file of
/// another checkpoint.
class DamagedCheckpoint : public UserError {
 public:
  using UserError::UserError;
};

/// Returns the content beside the tensors. Throws DamagedCheckpoint, or UserError on one that an earlier
/// Rewire wrote.
RunProgress read_progress(const std::string& folder);
/// The tensors of a checkpoint, each file as it was written. Reading them may throw DamagedCheckpoint.
struct CheckpointFiles {
  SafetensorsFile weights, state;
};
CheckpointFiles read_checkpoint_files(const std::string& folder);
/// Reads every parameter of `module` and no others, except the sums of an unfinished step, which start anew.
/// Warns of plugins that differ from the checkpoint's. Throws DamagedCheckpoint, or UserError on a tensor
/// that is missing, unknown or of another type.
Checkpoint read_checkpoint(const std::string& folder, const ir::Module& module,
                           const std::vector<PluginHandle>& plugins);

/// Which weights of a checkpoint: as the steps left them, or their averages (train.ema).
enum class WeightsOf : std::uint8_t { steps, averages };

/// The weights of a checkpoint, and its position in the run.
struct CheckpointWeights {
  std::string file;
  SafetensorsFile content;
  TrainPosition position;
  std::vector<PluginBuild> plugins;  // the plugins that it was made with
};
/// Reads a run's last checkpoint; if the training process removes it meanwhile, the one that is then last.
/// Returns nullopt if there is none. Throws DamagedCheckpoint, or UserError if averages are asked for and
/// the run keeps none.
std::optional<CheckpointWeights> read_last_weights(const RunFolder& run, WeightsOf which = WeightsOf::steps);
/// Reads RUN/checkpoints/NAME, where NAME may be `best` or `last`. Throws UserError if there is none.
CheckpointWeights read_named_weights(const RunFolder& run, const std::string& name,
                                     WeightsOf which = WeightsOf::steps);

/// Returns advice for a damaged last checkpoint: it names the newest sound one before it.
std::string way_around_damage(const std::vector<std::string>& checkpoints);

}  // namespace rewire::runtime

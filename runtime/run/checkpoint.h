// All that the next step of a run depends on, as a folder that appears whole or not at all.
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
  std::string checkpoint;   // of that state: "0003-00002811"
  std::int64_t waited = 0;  // evaluations since, none of which was better
};

/// How far a run's event files are (run_events.h): the step that the newest began behind, and its bytes.
struct EventsPosition {
  std::int64_t from_step = 0, bytes = 0;
};

/// What a checkpoint holds beside the tensors.
struct RunProgress {
  TrainPosition position;
  StepSizes sizes;                 // of its steps
  double epochs_done = 0;          // of the schedule
  DataIdentity data;               // that it trains on
  DataIdentity test_data;          // that it is evaluated on
  std::string competing;           // eval.classes
  TrainSums line;                  // since the last line of metrics.jsonl
  TrainSums epoch;                 // since the epoch began
  std::int64_t metrics_bytes = 0;  // of metrics.jsonl, at this point
  EventsPosition events;           // likewise
  std::int64_t samples = 0;        // trained on, over all sessions
  double lr = 0;                   // of the last step
  double last_epoch_loss = 0;      // mean over the steps of the last whole epoch
  double train_seconds = 0;        // spent in steps, over all sessions
  ChoiceRecord choices;            // of all programs
  std::optional<BestEvaluation> best;
};

struct Checkpoint {
  RunProgress progress;
  TensorMap state;  // weights and all other state
};

/// Writes RUN/checkpoints/<epoch>-<step> from the engine's state and returns its path; one that is there
/// already stays. `metadata`: of its files of weights. UserError naming the file and the system's reason: then nothing of it remains.
std::string write_checkpoint(const std::string& run, const RunProgress& progress, const Engine& engine,
                             const ir::Module& module, const std::vector<PluginHandle>& plugins,
                             const std::map<std::string, std::string>& metadata);

/// One of its files is not what was written: flipped bits, a block of zeros, a file of another checkpoint.
class DamagedCheckpoint : public UserError {
 public:
  using UserError::UserError;
};

/// What it holds beside the tensors. DamagedCheckpoint; UserError on one that an earlier Rewire wrote.
RunProgress read_progress(const std::string& folder);
/// The tensors of a checkpoint, each file as it was written. DamagedCheckpoint.
struct CheckpointFiles {
  SafetensorsFile weights, state;
};
CheckpointFiles read_checkpoint_files(const std::string& folder);
/// Every parameter of `module` and nothing else, but the sums of a step under way, which begin anew. DamagedCheckpoint; UserError on a tensor that is missing,
/// unknown or of another type. Plugins that are not those of the checkpoint are warned of.
Checkpoint read_checkpoint(const std::string& folder, const ir::Module& module,
                           const std::vector<PluginHandle>& plugins);

/// Which of a checkpoint's weights: as the steps left them, or their averages (train.ema).
enum class WeightsOf : std::uint8_t { steps, averages };

/// The weights of a checkpoint, and how far it is.
struct CheckpointWeights {
  std::string file;
  SafetensorsFile content;
  TrainPosition position;
  std::vector<PluginBuild> plugins;  // that it was made with
};
/// Of a run's last checkpoint; where the process that trains in it removes that meanwhile, of the one that is
/// last then. nullopt where there is none. DamagedCheckpoint.
/// UserError where averages are asked for and the run keeps none.
std::optional<CheckpointWeights> read_last_weights(const RunFolder& run, WeightsOf which = WeightsOf::steps);
/// Of RUN/checkpoints/NAME, where NAME may be `best` or `last`. UserError where there is none.
CheckpointWeights read_named_weights(const RunFolder& run, const std::string& name,
                                     WeightsOf which = WeightsOf::steps);

/// What to do about a last checkpoint that is damaged: names the newest of those before it that is sound.
std::string way_around_damage(const std::vector<std::string>& checkpoints);

}  // namespace rewire::runtime

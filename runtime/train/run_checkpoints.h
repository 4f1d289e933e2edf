// What a training run saves of itself: checkpoints, their names, and errors that say what is left to resume from.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/error.h"
#include "runtime/exec/engine.h"
#include "runtime/run/checkpoint.h"
#include "runtime/run/run_folder.h"
#include "runtime/train/run_plan.h"
#include "runtime/train/run_records.h"
#include "runtime/train/step_pipeline.h"
#include "runtime/train/trainer.h"

namespace rewire::runtime {

class RunCheckpoints {
 public:
  /// `progress` is the run's own, as it is at any time. `first_written` is called after the first checkpoint of a new
  /// state. All arguments must outlive it.
  RunCheckpoints(const TrainRequest& request, const RunPlan& plan, RunFolder& folder, Engine& engine,
                 RunRecords& records, RunProgress& progress, std::function<void()> first_written);

  /// Calls `write`, in a folder that the run still holds. A UserError, as from a full disk, then says what is left to
  /// resume from.
  template <class Write>
  void persist(Write write) const {
    folder_.require_held();
    try {
      write();
    } catch (const UserError& error) {
      fail(error);
    }
  }
  /// Writes a checkpoint and names it `last`. Returns its path. `elsewhere`: states that other ranks alone have. UserError
  /// if it cannot be written.
  std::string write(TensorMap elsewhere);
  /// Writes a checkpoint and removes older ones than train.keep asks for.
  void save(TensorMap elsewhere);
  /// Points `last` and `best` at the checkpoints that are there.
  void name() const;
  /// Returns the metadata of weight files in the run's present phase.
  const std::map<std::string, std::string>& metadata();

 private:
  [[noreturn]] void fail(const UserError& error) const;

  const TrainRequest& request_;
  const RunPlan& plan_;
  RunFolder& folder_;
  Engine& engine_;
  RunRecords& records_;
  RunProgress& progress_;
  const TrainPosition began_at_ = progress_.position;
  std::function<void()> first_written_;
  std::map<std::string, std::string> metadata_;
  std::int64_t metadata_phase_ = -1;  // the first epoch of the phase that metadata_ is for
};

/// Ends the run at a step that is not finite, which changed nothing. Writes a checkpoint of the state before it, beside
/// the one before that, since the cause may be an update that went too far a step or two ago; then replays the step and
/// throws a UserError that names the first tensor that is not finite. Rank 0 writes, for which it has `folder` and
/// `checkpoints`; the step's rank replays and throws; other ranks wait until that ends them.
[[noreturn]] void fail_step(const NonFiniteStep& step, const RunPlan& plan, Engine& engine,
                            const RunFolder* folder, RunCheckpoints* checkpoints, TrainObserver& observer,
                            const TrainPosition& at, Group& group, TensorMap elsewhere);

/// What to do about numbers that are not finite.
inline constexpr const char* kFiniteAdvice = "lower optimizer.lr, or set train.clip_norm";

}  // namespace rewire::runtime

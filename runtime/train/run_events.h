// The event files of a run, for TensorBoard: RUN/events.out.tfevents.00000000.rewire, and one more for each
// resume, named by the step after which the run goes on.
//
// In: the lines of metrics.jsonl, the pictures and weights of an evaluation, the recipe, the rewritten
// network. Out: scalars "train/loss", "eval/top1", "diagnose/blocks.0.attn.cosine"; the image
// "eval/pictures"; a histogram of each weight at each evaluation, "weights/blocks.0.attn.qkv.weight"; the
// values that distinguish runs as hparams; the graph.
//
// A resumed run cuts the files at its checkpoint, like metrics.jsonl, and begins another. TensorBoard reads
// a file that shrinks to its old end and then the next, which voids later steps. Other files have the same
// data, so a run never fails for its events. If one cannot be written, the run warns and goes on without
// events; it ignores a file that is missing or has become shorter.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "runtime/events/event_file.h"
#include "runtime/exec/engine.h"
#include "runtime/run/checkpoint.h"
#include "runtime/train/run_pictures.h"
#include "runtime/train/run_plan.h"

namespace rewire::runtime {

class RunEvents {
 public:
  /// Writes nothing if train.events is off, but still cuts existing files. A resumed run leaves them
  /// unchanged until it has something to add. No member function throws if a file cannot be written.
  RunEvents(const TrainRequest& request, const RunPlan& plan, const RunFolder& folder,
            const RunProgress& start);

  /// Adds a line of metrics.jsonl.
  void line(const nlohmann::ordered_json& line);
  void picture(std::int64_t step, const RunPicture& picture);
  /// Adds all trained weights, from the engine.
  void weights(std::int64_t step, const Engine& engine);
  /// Marks the run as complete.
  void end();

  /// Syncs all events to disk. After a failure it returns the position before that.
  EventsPosition sync();

 private:
  /// Does the work; after a failure, which it warns of, it does nothing.
  void attempt(const std::function<void()>& work);
  /// Writes an event; does nothing if they are off.
  void tell(const std::function<void(EventFile&)>& event);
  /// Cuts the existing files, and begins the new one.
  void begin();

  const TrainRequest& request_;
  const RunPlan& plan_;
  const RunFolder& folder_;
  const TrainPosition began_;
  EventsPosition position_;
  bool began_to_tell_ = false, failed_ = false;
  std::unique_ptr<EventFile> file_;  // none: off, nothing yet, or it failed
};

}  // namespace rewire::runtime

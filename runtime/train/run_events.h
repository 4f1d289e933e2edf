// The event files of a run, for TensorBoard: RUN/events.out.tfevents.00000000.rewire, and one more for each time that the
// run is resumed, by the step that it goes on behind.
//
// In: the lines of metrics.jsonl, the pictures and weights of an evaluation, the recipe, the rewritten network. Out: scalars
// "train/loss", "eval/top1", "diagnose/blocks.0.attn.cosine"; the image "eval/pictures"; a histogram of each weight at each
// evaluation, "weights/blocks.0.attn.qkv.weight"; what tells runs apart as hparams; the graph.
//
// A resumed run cuts them off where its checkpoint stands, as metrics.jsonl, and begins another file: TensorBoard reads a
// file that shrinks to its old end, and then the next, which says that what it has of later steps is void. They tell what
// stands elsewhere too, so a run never fails for them: where one cannot be written, it goes on with a warning and without
// further events; it says nothing of one that is not there or is shorter than it was.
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
  /// Nothing is written where train.events is off; files that are there are cut all the same. A run that goes on leaves
  /// them as they are until it has something to add. Neither this nor what follows throws for what cannot be written.
  RunEvents(const TrainRequest& request, const RunPlan& plan, const RunFolder& folder,
            const RunProgress& start);

  /// Of metrics.jsonl.
  void line(const nlohmann::ordered_json& line);
  void picture(std::int64_t step, const RunPicture& picture);
  /// All that are trained, as the engine has them.
  void weights(std::int64_t step, const Engine& engine);
  /// The run is complete.
  void end();

  /// All events are on disk when it returns. Behind a failure always the position before it.
  EventsPosition sync();

 private:
  /// With a warning where it fails; behind that nothing.
  void attempt(const std::function<void()>& work);
  /// Nothing where they are off.
  void tell(const std::function<void(EventFile&)>& event);
  /// Cuts what is there, and begins the file.
  void begin();

  const TrainRequest& request_;
  const RunPlan& plan_;
  const RunFolder& folder_;
  const TrainPosition began_;
  EventsPosition position_;
  bool began_to_tell_ = false, failed_ = false;
  std::unique_ptr<EventFile> file_;  // none: off, there was nothing yet, or it failed
};

}  // namespace rewire::runtime

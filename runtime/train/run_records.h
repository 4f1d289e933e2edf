// What a run tells of itself in its folder, beside pictures and checkpoints: metrics.jsonl, the event files,
// metrics.prom and report.html.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/run/checkpoint.h"
#include "runtime/run/metrics_log.h"
#include "runtime/train/run_events.h"
#include "runtime/train/run_prometheus.h"
#include "runtime/train/run_report.h"

namespace rewire::runtime {

class RunRecords {
 public:
  /// Each goes on where `start` stands; what is there of later steps is cut off. All outlive it. UserError where
  /// metrics.jsonl cannot be written, as from all that follow; where the others cannot, a warning.
  RunRecords(const TrainRequest& request, const RunPlan& plan, const RunFolder& folder, const Engine& engine,
             const RunProgress& start);

  /// Of metrics.jsonl.
  void line(const nlohmann::ordered_json& line);
  /// The evaluation behind this step was the line before, and drew that, if anything.
  void evaluated(std::int64_t step, const std::optional<RunPicture>& picture);
  /// The run is complete, or has been stopped.
  void end(bool complete);
  /// All is on disk when it returns, and `progress` tells how far.
  void sync(RunProgress& progress);

 private:
  const Engine& engine_;
  MetricsLog metrics_;
  RunEvents events_;
  RunPrometheus prometheus_;
  RunReport report_;
};

}  // namespace rewire::runtime

// The records of a run in its folder, beside pictures and checkpoints: metrics.jsonl, the event files,
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
  /// Continues each record at `start` and cuts off later steps. All must outlive it. This and the following
  /// functions throw UserError if metrics.jsonl cannot be written; for the others they warn.
  RunRecords(const TrainRequest& request, const RunPlan& plan, const RunFolder& folder, const Engine& engine,
             const RunProgress& start);

  /// Adds a line of metrics.jsonl.
  void line(const nlohmann::ordered_json& line);
  /// Reports that the line before is the evaluation after this step, and its picture, if any.
  void evaluated(std::int64_t step, const std::optional<RunPicture>& picture);
  /// Ends the records: the run is complete, or has been stopped.
  void end(bool complete);
  /// Syncs all records to disk and sets their positions in `progress`.
  void sync(RunProgress& progress);

 private:
  const Engine& engine_;
  MetricsLog metrics_;
  RunEvents events_;
  RunPrometheus prometheus_;
  RunReport report_;
};

}  // namespace rewire::runtime

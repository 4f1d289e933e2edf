#include "runtime/train/run_records.h"

#include <nlohmann/json.hpp>

namespace rewire::runtime {

RunRecords::RunRecords(const TrainRequest& request, const RunPlan& plan, const RunFolder& folder,
                       const Engine& engine, const RunProgress& start)
    : engine_(engine),
      metrics_(folder.place("metrics.jsonl"), start.metrics_bytes),
      events_(request, plan, folder, start),
      prometheus_(plan, folder),
      report_(folder, plan.recipe.train.report) {}

void RunRecords::line(const nlohmann::ordered_json& line) {
  metrics_.append(line);
  events_.line(line);
  prometheus_.line(line);
}

void RunRecords::evaluated(std::int64_t step, const std::optional<RunPicture>& picture) {
  if (picture) events_.picture(step, *picture);
  events_.weights(step, engine_);
  report_.evaluated();
}

void RunRecords::end(bool complete) {
  if (complete) events_.end();
  prometheus_.end();
  report_.end();
}

void RunRecords::sync(RunProgress& progress) {
  progress.metrics_bytes = metrics_.sync();
  progress.events = events_.sync();
}

}  // namespace rewire::runtime

#include "runtime/run/metrics_log.h"

#include <nlohmann/json.hpp>

#include "ir/side_results.h"

namespace rewire::runtime {
namespace {

nlohmann::ordered_json line_of(const char* kind, const TrainPosition& position) {
  return {{"kind", kind}, {"epoch", position.epoch}, {"step", position.step}};
}

}  // namespace

nlohmann::ordered_json train_line(const TrainPosition& position, const MetricValues& metrics,
                                  double grad_norm, double lr, double samples_per_second) {
  nlohmann::ordered_json line = line_of("train", position);
  for (const MetricValue& metric : metrics) line[metric.name] = metric.value;
  line["grad_norm"] = grad_norm;
  line["lr"] = lr;
  line["samples_per_s"] = samples_per_second;
  return line;
}

nlohmann::ordered_json eval_line(const TrainPosition& position, const Evaluation& evaluation) {
  nlohmann::ordered_json line = line_of("eval", position);
  for (const MetricValue& metric : evaluation.metrics) line[metric.name] = metric.value;
  line["samples"] = evaluation.samples;
  line["seconds"] = evaluation.seconds;
  return line;
}

nlohmann::ordered_json diagnose_line(const TrainPosition& position, const MetricValues& diagnostics) {
  nlohmann::ordered_json line = line_of("diagnose", position);
  for (const MetricValue& one : diagnostics) {
    const bool is_report = one.name.starts_with(ir::kReportPrefix);
    line[is_report ? one.name : "diagnose." + one.name] = one.value;
  }
  return line;
}

MetricsLog::MetricsLog(const FilePlace& place, std::int64_t bytes)
    : file_(place, bytes, "the run's metrics go there") {}

void MetricsLog::append(const nlohmann::ordered_json& line) {
  file_.append(line.dump() + "\n");
}

}  // namespace rewire::runtime

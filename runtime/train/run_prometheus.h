// RUN/metrics.prom of a training run: its figures in the text format of Prometheus, for node_exporter's
// textfile collector and other readers.
//
// In: the lines of metrics.jsonl. Out: the file, replaced whole after a line, at most every five seconds,
// and at the end. metrics.jsonl has the same data, so a run never fails for this file: if it cannot be
// written, that is a warning.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>

#include "runtime/run/run_folder.h"
#include "runtime/train/run_plan.h"

namespace rewire::runtime {

class RunPrometheus {
 public:
  /// The arguments must outlive it. Writes nothing before the first line.
  RunPrometheus(const RunPlan& plan, const RunFolder& folder) : plan_(plan), folder_(folder) {}

  /// Takes a line of metrics.jsonl.
  void line(const nlohmann::ordered_json& line);
  void end();

 private:
  std::string text() const;
  /// Replaces a link or file of that name and never writes through it. Not synced: the next line replaces
  /// it.
  void write();

  const RunPlan& plan_;
  const RunFolder& folder_;
  std::map<std::pair<std::string, std::string>, double> values_;  // by kind and name, of the last such line
  double step_ = 0, epoch_ = 0;                                   // of the last line
  bool is_behind_ = false;                                        // the file lacks lines
  std::optional<std::chrono::steady_clock::time_point> written_;
};

}  // namespace rewire::runtime

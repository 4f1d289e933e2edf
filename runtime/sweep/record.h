// What a sweep knows of one of its runs, kept as a small JSON file so that a later call need not ask again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/io/place.h"
#include "runtime/measure/metrics.h"
#include "runtime/plugin/builds.h"

namespace rewire::runtime {

struct RunRecord {
  std::string recipe;  // the resolved recipe as TOML: what the run is
  /// In their order; a record of before they were kept: nothing.
  std::optional<std::vector<PluginBuild>> plugins;
  enum class Status { begun, finished, failed } status = Status::begun;
  std::string error;        // of a failed run
  double wall_seconds = 0;  // of all processes that worked on it, compiling and evaluations included
  // Of a finished run; `metrics` are those of its last evaluation but the loss, parts of a whole as
  // fractions.
  MetricValues metrics;
  double test_loss = 0, train_loss = 0, samples_per_s = 0, train_seconds = 0, peak_mb = 0;
};

/// Nothing if there is no file. UserError if it is no record.
std::optional<RunRecord> read_record(const FilePlace& file);
void write_record(const FilePlace& file, const RunRecord& record);
/// Fills in what `rewire train --json` printed at the end of a complete run. UserError if it is not that.
void read_train_output(RunRecord& record, const std::string& json);

}  // namespace rewire::runtime

// The record of one run of a sweep, in a small JSON file so that a later call need not ask again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/io/place.h"
#include "runtime/measure/metrics.h"
#include "runtime/plugin/builds.h"

namespace rewire::runtime {

struct RunRecord {
  std::string recipe;  // the resolved recipe as TOML, which identifies the run
  /// In their order; nothing in a record from before they were kept.
  std::optional<std::vector<PluginBuild>> plugins;
  enum class Status { begun, finished, failed } status = Status::begun;
  std::string error;        // a failed run's message
  double wall_seconds = 0;  // over all processes that worked on it, compiling and evaluations included
  // For a finished run. `metrics`: its last evaluation without the loss, shares as fractions.
  MetricValues metrics;
  double test_loss = 0, train_loss = 0, samples_per_s = 0, train_seconds = 0, peak_mb = 0;
};

/// Returns nothing if there is no file. Throws UserError if it is no record.
std::optional<RunRecord> read_record(const FilePlace& file);
void write_record(const FilePlace& file, const RunRecord& record);
/// Adds the output of `rewire train --json` at the end of a complete run. Throws UserError if it is not
/// that.
void read_train_output(RunRecord& record, const std::string& json);

}  // namespace rewire::runtime

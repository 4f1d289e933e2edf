// A sweep's results: one row a combination of plugins and settings, each number as mean and standard
// deviation over the seeds, and how it differs from the first strategy, paired over the seeds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/measure/statistic.h"
#include "runtime/sweep/record.h"
#include "runtime/sweep/sweep.h"

namespace rewire::runtime {

/// Statistics are of the runs that are finished.
struct SweepRow {
  std::string label;                // "gain:factor=0.5", "none", "the recipe's plugins"
  std::vector<std::string> varied;  // "optimizer.lr=0.001"
  std::int64_t finished = 0, failed = 0, left = 0;
  std::vector<std::pair<std::string, Statistic>> metrics;  // by name, as RunRecord has them
  Statistic test_loss, train_loss, samples_per_s, peak_mb, wall_seconds;
  /// The row that this one is compared with: the first strategy of the same settings, by its label, or where there
  /// is one strategy alone the first row, by its settings. "": it is that row.
  std::string against;
  /// By the names of metrics, "test_loss" and "train_loss": over the seeds that both rows have.
  std::vector<std::pair<std::string, Difference>> differences;
};

/// `records` as `runs`; a run without one is left to do.
std::vector<SweepRow> sweep_rows(const std::vector<SweepRun>& runs,
                                 const std::vector<std::optional<RunRecord>>& records);

/// Two tables for people, the rows and their differences, aligned; the same as Markdown and as LaTeX; one with bare
/// numbers as CSV.
std::string text_table(const std::vector<SweepRow>& rows);
std::string markdown_table(const std::vector<SweepRow>& rows);
std::string latex_table(const std::vector<SweepRow>& rows);
std::string csv_table(const std::vector<SweepRow>& rows);
/// One line a run, finished or not.
std::string csv_runs(const std::vector<SweepRun>& runs, const std::vector<std::optional<RunRecord>>& records);

}  // namespace rewire::runtime

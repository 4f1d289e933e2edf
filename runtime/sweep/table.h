// A sweep's results: one row per combination of plugins and settings. Each number is a mean and standard
// deviation over the seeds, with its difference to the first strategy, paired over the seeds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/measure/statistic.h"
#include "runtime/sweep/record.h"
#include "runtime/sweep/sweep.h"

namespace rewire::runtime {

/// One row; its statistics cover the finished runs.
struct SweepRow {
  std::string label;                // "gain:factor=0.5", "none", "the recipe's plugins"
  std::vector<std::string> varied;  // "optimizer.lr=0.001"
  std::int64_t finished = 0, failed = 0, left = 0;
  std::vector<std::pair<std::string, Statistic>> metrics;  // by name, as in RunRecord
  Statistic test_loss, train_loss, samples_per_s, peak_mb, wall_seconds;
  /// The row that this one is compared with: the first strategy with the same settings, by its label. If
  /// there is only one strategy: the first row, by its settings. "": it is that row itself.
  std::string against;
  /// By the names of metrics, "test_loss" and "train_loss": over the seeds that both rows have.
  std::vector<std::pair<std::string, Difference>> differences;
};

/// Returns the rows. `records` is in the order of `runs`; a run without one is still to do.
std::vector<SweepRow> sweep_rows(const std::vector<SweepRun>& runs,
                                 const std::vector<std::optional<RunRecord>>& records);

/// Return the rows and their differences as two tables for people, aligned, as Markdown or as LaTeX;
/// csv_table() returns one table with bare numbers.
std::string text_table(const std::vector<SweepRow>& rows);
std::string markdown_table(const std::vector<SweepRow>& rows);
std::string latex_table(const std::vector<SweepRow>& rows);
std::string csv_table(const std::vector<SweepRow>& rows);
/// Returns one line per run, finished or not.
std::string csv_runs(const std::vector<SweepRun>& runs, const std::vector<std::optional<RunRecord>>& records);

}  // namespace rewire::runtime

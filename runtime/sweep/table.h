// A sweep's results: one row a combination of plugins and settings, each number as mean and standard
// deviation over the seeds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/sweep/record.h"
#include "runtime/sweep/sweep.h"

namespace rewire::runtime {

/// Of the runs that are finished. The deviation is the sample's (divided by n - 1), 0 for n < 2.
struct Statistic {
  std::int64_t count = 0;
  double mean = 0, deviation = 0;
};
Statistic statistic_of(const std::vector<double>& values);

struct SweepRow {
  std::string label;                // "gain:factor=0.5", "none", "the recipe's plugins"
  std::vector<std::string> varied;  // "optimizer.lr=0.001"
  std::int64_t finished = 0, failed = 0, left = 0;
  std::vector<std::pair<std::string, Statistic>> metrics;  // by name, as RunRecord has them
  Statistic test_loss, train_loss, images_per_s, peak_mb, wall_seconds;
};

/// `records` as `runs`; a run without one is left to do.
std::vector<SweepRow> sweep_rows(const std::vector<SweepRun>& runs,
                                 const std::vector<std::optional<RunRecord>>& records);

/// A table for people, aligned; the same as Markdown; the same with bare numbers as CSV.
std::string text_table(const std::vector<SweepRow>& rows);
std::string markdown_table(const std::vector<SweepRow>& rows);
std::string csv_table(const std::vector<SweepRow>& rows);
/// One line a run, finished or not.
std::string csv_runs(const std::vector<SweepRun>& runs, const std::vector<std::optional<RunRecord>>& records);

}  // namespace rewire::runtime

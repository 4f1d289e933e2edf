// Trains the runs of a sweep, each in its own process, in turn or several at once, and keeps the results in one folder:
//
//   runs/NAME/          the run folder that `rewire train` made
//   records/NAME.json   the run's recipe, whether it is finished, its numbers or its error
//   runs.csv            one line per run
//   table.csv, .md, .tex  one row per combination of plugins and settings: mean and deviation over the
//                       seeds, and the paired difference to the first strategy; .md says below it if runs
//                       have seen other data
//
// All files are written after every run. A later call with the same sweep skips finished runs and continues
// interrupted or failed ones. If a plugin's library has changed, its run is set aside (runs/NAME.stale-1,
// records/NAME.stale-1.json) and trained again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sweep/places.h"
#include "runtime/sweep/record.h"
#include "runtime/sweep/sweep.h"
#include "runtime/sweep/table.h"

namespace rewire::runtime {

/// A run to be trained.
struct SweepJob {
  SweepRun run;
  std::string recipe;                // resolved, as TOML: identifies the run
  std::vector<PluginBuild> plugins;  // the libraries that it is to be made with
  std::vector<std::string> network;  // the words after `rewire train` that say what to train
  std::vector<std::string> options;  // options for both a fresh start and --resume
};

class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  virtual void begins(const SweepJob& job, std::size_t number, std::size_t count, bool resumes) = 0;
  /// Reports that another library made an earlier run, which is kept as `kept`.
  virtual void set_aside(const SweepJob& job, std::string_view why, std::string_view kept) = 0;
  virtual void says(const SweepJob& job, std::string_view text) = 0;  // the run, on its stderr
  virtual void ended(const SweepJob& job, const RunRecord& record) = 0;
};

struct SweepOptions {
  /// The place of each process; as many train at once. At least one.
  std::vector<ProcessPlace> places;
  /// The number of the one run to train, from 0, while other processes train others; otherwise all runs.
  std::optional<std::size_t> only;
};

struct SweepResult {
  std::vector<SweepRow> rows;
  std::vector<std::optional<RunRecord>> records;  // as the jobs
  std::vector<std::string> mixed_data;            // lines about runs that have seen other data (mixed_data.h)
  int stopped_by = 0;                             // the signal, or 0: every run was tried
};

/// Runs the sweep. Throws UserError if another process works in the folder, or with `only` on the same run, if it cannot
/// be written, or if a run in it has another recipe.
SweepResult run_sweep(const std::vector<SweepJob>& jobs, const std::string& folder,
                      const SweepOptions& options, const std::function<int()>& stop_signal,
                      SweepObserver& observer);

}  // namespace rewire::runtime

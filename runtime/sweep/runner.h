// Trains the runs of a sweep one after the other, each in a process of its own, and keeps in one folder what
// came out:
//
//   runs/NAME/          the run folder that `rewire train` made
//   records/NAME.json   what the run is, whether it is finished, its numbers or its error
//   runs.csv            one line a run
//   table.csv, .md, .tex  one row a combination of plugins and settings: mean and deviation over the seeds, and the
//                       paired difference to the first strategy; .md says below it where runs have seen other data
//
// All of it is written after every run. A later call with the same sweep skips what is finished and goes on
// with what was interrupted or failed. A run of a plugin whose library is another one by now is set aside
// (runs/NAME.stale-1, records/NAME.stale-1.json) and trained again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sweep/record.h"
#include "runtime/sweep/sweep.h"
#include "runtime/sweep/table.h"

namespace rewire::runtime {

/// A run as it is to be trained.
struct SweepJob {
  SweepRun run;
  std::string recipe;                // resolved, as TOML: what the run is
  std::vector<PluginBuild> plugins;  // the libraries that it is to be made with
  std::vector<std::string> network;  // the words behind `rewire train` that say what to train
  std::vector<std::string> options;  // those that a fresh start and --resume both take
};

class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  virtual void begins(const SweepJob& job, std::size_t number, std::size_t count, bool resumes) = 0;
  /// An earlier run was made by another library; it is kept as `kept`.
  virtual void set_aside(const SweepJob& job, std::string_view why, std::string_view kept) = 0;
  virtual void says(std::string_view text) = 0;  // the run, on its stderr
  virtual void ended(const SweepJob& job, const RunRecord& record) = 0;
};

struct SweepResult {
  std::vector<SweepRow> rows;
  std::vector<std::optional<RunRecord>> records;  // as the jobs
  std::vector<std::string> mixed_data;            // lines about runs that have seen other data (mixed_data.h)
  int stopped_by = 0;                             // the signal, or 0: every run was tried
};

/// UserError if another process works in the folder, it cannot be written, or a run in it is of another
/// recipe.
SweepResult run_sweep(const std::vector<SweepJob>& jobs, const std::string& folder,
                      const std::function<int()>& stop_signal, SweepObserver& observer);

}  // namespace rewire::runtime

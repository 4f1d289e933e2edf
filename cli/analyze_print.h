// How `rewire analyze RUN` prints what it has measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/measure/metrics.h"
#include "runtime/run/checkpoint.h"

namespace rewire::cli {

/// One checkpoint of a run, or the weights of its end.
struct MeasuredRun {
  std::string name;     // "0002-00001874"; "" where it is no checkpoint
  std::string weights;  // their file
  runtime::TrainPosition position;
  std::int64_t images = 0;
  ir::Function network;          // the program that measured it: its joins and blocks
  runtime::MetricValues values;  // under the names of programs/diagnose.h and conditioning_values()
  std::string no_jacobian;       // why some Jacobian is missing, for people; else ""
};

/// One object; of several checkpoints their list.
void print_measured_object(const std::vector<MeasuredRun>& runs, bool is_list);
/// A line a join, a line a block, and what is neither's.
void print_measured_tables(const MeasuredRun& run);
/// A line a number, a column a checkpoint.
void print_measured_columns(const std::vector<MeasuredRun>& runs, const std::string& folder);

}  // namespace rewire::cli

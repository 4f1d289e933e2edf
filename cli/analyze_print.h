// Prints the results of `rewire analyze RUN`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/measure/metrics.h"
#include "runtime/run/checkpoint.h"

namespace rewire::cli {

/// Results of one checkpoint of a run, or of its final weights.
struct MeasuredRun {
  std::string name;     // "0002-00001874"; "" if it is not a checkpoint
  std::string weights;  // the file with the weights
  runtime::TrainPosition position;
  std::int64_t images = 0;
  ir::Function network;          // the program that measured it
  runtime::MetricValues values;  // named by programs/diagnose.h and conditioning_values()
  std::string no_jacobian;       // why a Jacobian is missing, for people; else ""
};

/// Prints an object, or a list of them.
void print_measured_object(const std::vector<MeasuredRun>& runs, bool is_list);
/// Prints a line per join, a line per block, and all other values.
void print_measured_tables(const MeasuredRun& run);
/// Prints a line per value and a column per checkpoint.
void print_measured_columns(const std::vector<MeasuredRun>& runs, const std::string& folder);

}  // namespace rewire::cli

// RUN/report.html of a training run: `rewire report RUN`, written whole after evaluations and at the end.
// All reports together take at most a hundredth of the time: an evaluation that comes too early for that
// gets none. The last report is always written.
#pragma once

#include <string>

#include "runtime/run/run_folder.h"

namespace rewire::runtime {

class RunReport {
 public:
  /// Writes nothing unless `wanted` (train.report).
  RunReport(const RunFolder& folder, bool wanted);

  void evaluated();
  void end();

 private:
  /// Writes a report. Other files have the same data, so any failure is only a warning.
  void write();

  std::string folder_;
  bool wanted_;
  double began_, spent_ = 0, last_ = 0;  // seconds: of the clock, in all reports, in the last one
};

}  // namespace rewire::runtime

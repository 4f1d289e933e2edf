// RUN/report.html of a run that trains: `rewire report RUN`, written anew behind evaluations and at the end, each time whole.
// All of them together take at most a hundredth of the time: an evaluation that comes too early for that goes without. The
// last one is always written.
#pragma once

#include <string>

#include "runtime/run/run_folder.h"

namespace rewire::runtime {

class RunReport {
 public:
  /// Nothing is written unless it is wanted (train.report).
  RunReport(const RunFolder& folder, bool wanted);

  void evaluated();
  void end();

 private:
  /// A report tells what stands elsewhere: one that fails, whatever the cause, is a warning.
  void write();

  std::string folder_;
  bool wanted_;
  double began_, spent_ = 0, last_ = 0;  // seconds: of the clock, in all reports, in the last one
};

}  // namespace rewire::runtime

#include "runtime/train/run_report.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>

#include "runtime/device/log.h"
#include "runtime/report/report.h"

namespace rewire::runtime {
namespace {

constexpr double kMostForReports = 0.01;  // share of the run's time

double report_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

RunReport::RunReport(const RunFolder& folder, bool wanted)
    : folder_(folder.path()), wanted_(wanted), began_(report_clock()) {}

void RunReport::evaluated() {
  if (wanted_ && spent_ + last_ <= kMostForReports * (report_clock() - began_)) write();
}

void RunReport::end() {
  if (wanted_) write();
}

void RunReport::write() {
  const double before = report_clock();
  try {
    write_report({folder_}, FilePlace::below(folder_, "report.html"));
  } catch (const std::exception& error) {
    write_log_once(LogLevel::warning, "report.html", fmt::format("no report is written: {}", error.what()));
  }
  last_ = report_clock() - before;
  spent_ += last_;
}

}  // namespace rewire::runtime

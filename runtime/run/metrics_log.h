// metrics.jsonl: one JSON object per line, appended during the run.
//
//   {"kind":"train","epoch":0,"step":50,"loss":…,…,"grad_norm":…,"lr":…,"samples_per_s":…}
//   {"kind":"eval","epoch":0,"step":937,"loss":…,…,"samples":10000,"seconds":…}
//   {"kind":"diagnose","epoch":0,"step":50,"diagnose.blocks.0.attn.cosine":…,…}
//
// Epochs count from 0, steps from 1. The objective's other metrics follow the loss. In a training line,
// these and grad_norm are means over the steps since the line before; shares are fractions. If plugins add
// to the loss, "plain_loss" is the loss without that. Plugins' reports are "report.<join>.<plugin>.<name>",
// null if such a mean is not finite. A diagnose line ([diagnose]) has them too, beside the results of
// programs/diagnose.h.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/io/appended_file.h"
#include "runtime/run/checkpoint.h"

namespace rewire::runtime {

nlohmann::ordered_json train_line(const TrainPosition& position, const MetricValues& metrics,
                                  double grad_norm, double lr, double samples_per_second);
nlohmann::ordered_json eval_line(const TrainPosition& position, const Evaluation& evaluation);
nlohmann::ordered_json diagnose_line(const TrainPosition& position, const MetricValues& diagnostics);

class MetricsLog {
 public:
  /// Keeps the first `bytes` of an existing file and appends after them. Throws UserError if it cannot be
  /// written, or is shorter.
  MetricsLog(const FilePlace& place, std::int64_t bytes);

  /// Appends the whole line at once. Throws UserError if there is no room.
  void append(const nlohmann::ordered_json& line);
  /// Syncs all lines to disk and returns the size in bytes.
  std::int64_t sync() { return file_.sync(); }

 private:
  AppendedFile file_;
};

}  // namespace rewire::runtime

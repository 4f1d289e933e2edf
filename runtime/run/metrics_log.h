// metrics.jsonl: one JSON object a line, appended while the run goes on.
//
//   {"kind":"train","epoch":0,"step":50,"loss":…,…,"grad_norm":…,"lr":…,"samples_per_s":…}
//   {"kind":"eval","epoch":0,"step":937,"loss":…,…,"samples":10000,"seconds":…}
//   {"kind":"diagnose","epoch":0,"step":50,"diagnose.blocks.0.attn.cosine":…,…}
//
// Epochs count from 0, steps from 1. Behind the loss stand the objective's other metrics; those and grad_norm
// of a training line are means over the steps since the line before, parts of a whole as fractions. Where
// plugins add to the loss, "plain_loss" is the loss without that; what they report is
// "report.<join>.<plugin>.<name>", null where such a mean is not finite; in a diagnose line ([diagnose]) too, beside
// what programs/diagnose.h tells.
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
  /// Keeps the first `bytes` of a file that is there and goes on behind them. UserError if it cannot be
  /// written, or is shorter.
  MetricsLog(const FilePlace& place, std::int64_t bytes);

  /// Whole, at once. UserError if there is no room.
  void append(const nlohmann::ordered_json& line);
  /// All lines are on disk when it returns; their size in bytes.
  std::int64_t sync() { return file_.sync(); }

 private:
  AppendedFile file_;
};

}  // namespace rewire::runtime

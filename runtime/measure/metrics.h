// What programs tell of the batches they ran on, added up: over steps for the lines of a run's log, over the
// test set for an evaluation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "programs/metric.h"
#include "runtime/data/loader.h"
#include "runtime/exec/engine.h"

namespace rewire::runtime {

/// Programs that are under way on a device: one computes, the next has its inputs.
inline constexpr std::size_t kRunsAhead = 2;

/// A mean. programs::metric_info() says what people call it.
struct MetricValue {
  std::string name;
  double value = 0;
};
using MetricValues = std::vector<MetricValue>;

/// "loss 0.4321, top-1 85.30 %", the numbers with 4 digits behind the point; those of files alone are left
/// out.
std::string metrics_text(const MetricValues& values, int percent_digits = 2, const char* separator = ", ");

struct MetricSum {
  double numerator = 0, denominator = 0;
};
/// By the metrics' names.
using MetricSums = std::map<std::string, MetricSum, std::less<>>;

/// One run of a program more.
void add_results(MetricSums& sums, const programs::Metrics& metrics, const TensorMap& results);
void add_sums(MetricSums& sums, const MetricSums& more);
/// In the order of `metrics`; what has no sum is left out.
MetricValues means(const MetricSums& sums, const programs::Metrics& metrics);

struct Evaluation {
  MetricValues metrics;  // the first is the loss
  std::int64_t samples = 0;
  double seconds = 0;

  double loss() const { return metrics.at(0).value; }
};

/// A program of an evaluation, and what it tells, each under its name behind `prefix`.
struct EvalProgram {
  const ir::Function& function;
  const programs::Metrics& metrics;
  std::string_view prefix = "";
};

/// One pass over the loader's test set with these programs, whose metrics stand behind each other.
/// `go_on` is asked before each batch, with the number of batches done; nothing is returned when it says no.
/// `see_first` is shown the first batch.
std::optional<Evaluation> evaluate(
    Engine& engine, const std::vector<EvalProgram>& programs, Loader& loader,
    const std::function<bool(std::int64_t done)>& go_on,
    const std::function<void(Batch& first)>& see_first = [](Batch&) {});

}  // namespace rewire::runtime

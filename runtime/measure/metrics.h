// Sums of the metrics that programs report: over steps for the lines of a run's log, over the test set for
// an evaluation.
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
#include "runtime/group/group.h"

namespace rewire::runtime {

/// The number of programs in flight on a device: one computes while the next has its inputs.
inline constexpr std::size_t kRunsAhead = 2;

/// The mean value of a metric. programs::metric_info() gives its title for people.
struct MetricValue {
  std::string name;
  double value = 0;
};
using MetricValues = std::vector<MetricValue>;

/// Returns "loss 0.4321, top-1 85.30 %", with 4 digits after the point. Leaves out metrics that appear only
/// in files.
std::string metrics_text(const MetricValues& values, int percent_digits = 2, const char* separator = ", ");

struct MetricSum {
  double numerator = 0, denominator = 0;
};
/// Sums by the metrics' names.
using MetricSums = std::map<std::string, MetricSum, std::less<>>;

/// Adds the results of one run of a program.
void add_results(MetricSums& sums, const programs::Metrics& metrics, const TensorMap& results);
void add_sums(MetricSums& sums, const MetricSums& more);
/// Returns the means in the order of `metrics`, without those that have no sum.
MetricValues means(const MetricSums& sums, const programs::Metrics& metrics);

/// Returns the batches that a rank evaluates.
inline LoaderShare evaluation_share(const Group& group) {
  return {group.rank(), 1, group.size()};
}

struct Evaluation {
  /// The first is the loss. A later one whose denominators are 0 is left out: bits per byte of tokens without a
  /// tokenizer.
  MetricValues metrics;
  std::int64_t samples = 0;
  double seconds = 0;

  double loss() const { return metrics.at(0).value; }
};

/// A program of an evaluation and its metrics; `prefix` comes before each metric's name.
struct EvalProgram {
  const ir::Function& function;
  const programs::Metrics& metrics;
  std::string_view prefix = "";
};

/// Runs these programs over the loader's test set once and concatenates their metrics. Rank r of n computes the batches
/// r, r + n, …, which its loader gives (evaluation_share); all ranks return the same. Before each batch it calls `go_on`
/// with the number of batches done, and returns nothing if that is false, which all ranks decide alike. `see_first` gets
/// the first batch, on rank 0.
std::optional<Evaluation> evaluate(
    Engine& engine, const std::vector<EvalProgram>& programs, Loader& loader, Group& group,
    const std::function<bool(std::int64_t done)>& go_on,
    const std::function<void(Batch& first)>& see_first = [](Batch&) {});

}  // namespace rewire::runtime

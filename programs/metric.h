// The metrics that programs return, by name.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::programs {

/// The form in which people read a metric: as it is, as a percentage (times 100), or only in a run's files.
enum class Shown : std::uint8_t { number, percent, in_files };

/// A mean that is right over batches, micro-batches of a step, and ranks: the sum of the numerators over the
/// sum of the denominators. With `exponential`, e to the power of that mean, as the perplexity is of the loss.
struct Metric {
  std::string name;              // "top1"
  std::string numerator;         // a result of the program, f32[]
  std::string denominator = {};  // likewise; "": each run counts `count`
  double count = 1;
  bool exponential = false;

  double value(double numerators, double denominators) const {
    const double mean = numerators / denominators;
    return exponential ? std::exp(mean) : mean;
  }
};
using Metrics = std::vector<Metric>;

/// The value of the better network: the lower or the higher one.
enum class Better : std::uint8_t { lower, higher };

/// Names and display of the metric of this name.
struct MetricInfo {
  std::string name;   // in files: "top1"
  std::string title;  // for people: "top-1"
  Shown shown = Shown::in_files;
  Better better = Better::lower;
};

/// Returns whether top-5 is reported: with 5 classes or fewer the right one is always among the first five.
constexpr bool tells_top5(std::int64_t classes) {
  return classes > 5;
}

/// Prefix of a metric of the weights' averages: "ema_top1".
inline constexpr std::string_view kOfAverages = "ema_";

}  // namespace rewire::programs

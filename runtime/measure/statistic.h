// Statistics over the seeds of a strategy, and a test whether two strategies differ by more than their seeds
// do.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace rewire::runtime {

/// Mean and standard deviation of a sample; the deviation divides by n - 1, and is 0 for n < 2.
struct Statistic {
  std::int64_t count = 0;
  double mean = 0, deviation = 0;
};
Statistic statistic_of(const std::vector<double>& values);

/// Returns the factor t of the 95 % interval mean ± t s / √n for n = degrees + 1 numbers: Student's 0.975
/// quantile.
double student_95(std::int64_t degrees);

/// The mean of b − a over pairs (a, b) of one seed and, for two pairs or more, the 95 % interval of that
/// mean.
struct Difference {
  std::int64_t pairs = 0;
  double mean = 0, low = 0, high = 0;
  /// Returns true if the interval excludes 0. An interval of width 0, of differences that are equal by
  /// chance, does not count.
  bool separates() const { return low < high && (low > 0 || high < 0); }
};
Difference paired_difference(const std::vector<std::pair<double, double>>& pairs);

}  // namespace rewire::runtime

// Numbers over the seeds of a strategy, and whether two strategies differ by more than their seeds do.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace rewire::runtime {

/// The deviation is the sample's (divided by n - 1), 0 for n < 2.
struct Statistic {
  std::int64_t count = 0;
  double mean = 0, deviation = 0;
};
Statistic statistic_of(const std::vector<double>& values);

/// The factor t of a 95 % interval of a mean of n = degrees + 1 numbers, mean ± t s / √n: Student's 0.975 quantile.
double student_95(std::int64_t degrees);

/// Of b − a over pairs (a, b) of the same seed: its mean, and that mean's 95 % interval where there are two pairs.
struct Difference {
  std::int64_t pairs = 0;
  double mean = 0, low = 0, high = 0;
  /// Whether the interval excludes 0. One without width, of differences that are the same by chance, says nothing.
  bool separates() const { return low < high && (low > 0 || high < 0); }
};
Difference paired_difference(const std::vector<std::pair<double, double>>& pairs);

}  // namespace rewire::runtime

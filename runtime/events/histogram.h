// The distribution of numbers, as TensorBoard draws it.
#pragma once

#include <span>
#include <utility>
#include <vector>

namespace rewire::runtime {

/// A histogram of the finite numbers alone. `buckets`: right edge, which belongs to the bucket, and count;
/// the first begins at `min`, the last ends at `max`.
struct Histogram {
  double min = 0, max = 0, count = 0, sum = 0, sum_squares = 0;
  std::vector<std::pair<double, double>> buckets;
};

/// Counts numbers in kHistogramBuckets of one width; in one bucket if all are equal, in none if there are
/// none.
Histogram histogram_of(std::span<const float> numbers);

inline constexpr int kHistogramBuckets = 30;  // as many as TensorBoard draws

}  // namespace rewire::runtime

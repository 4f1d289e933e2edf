// How numbers are spread, as TensorBoard draws it.
#pragma once

#include <span>
#include <utility>
#include <vector>

namespace rewire::runtime {

/// Of the finite numbers alone. `buckets`: right edge, which belongs to the bucket, and count; the first begins at `min`,
/// the last ends at `max`.
struct Histogram {
  double min = 0, max = 0, count = 0, sum = 0, sum_squares = 0;
  std::vector<std::pair<double, double>> buckets;
};

/// kHistogramBuckets of one width; a single one where all numbers are the same, none where there is none.
Histogram histogram_of(std::span<const float> numbers);

inline constexpr int kHistogramBuckets = 30;  // TensorBoard draws so many

}  // namespace rewire::runtime

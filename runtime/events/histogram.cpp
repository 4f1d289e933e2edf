#include "runtime/events/histogram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace rewire::runtime {

Histogram histogram_of(std::span<const float> numbers) {
  Histogram histogram;
  float least = std::numeric_limits<float>::infinity(), most = -least;
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    least = std::min(least, number);
    most = std::max(most, number);
    histogram.count += 1;
    histogram.sum += number;
    histogram.sum_squares += static_cast<double>(number) * number;
  }
  if (histogram.count == 0) return histogram;
  histogram.min = least;
  histogram.max = most;
  if (least == most) {
    histogram.buckets = {{histogram.max, histogram.count}};
    return histogram;
  }
  const double width = (histogram.max - histogram.min) / kHistogramBuckets;
  std::array<std::int64_t, kHistogramBuckets> counts{};
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    // Bucket i is (min + i width, min + (i + 1) width]; the smallest number of all is in the first.
    const double place = std::ceil((number - histogram.min) / width) - 1;
    ++counts[static_cast<std::size_t>(std::clamp(place, 0.0, kHistogramBuckets - 1.0))];
  }
  for (int i = 0; i < kHistogramBuckets; ++i) {
    const double limit = i + 1 == kHistogramBuckets ? histogram.max : histogram.min + (i + 1) * width;
    histogram.buckets.emplace_back(limit, static_cast<double>(counts[static_cast<std::size_t>(i)]));
  }
  return histogram;
}

}  // namespace rewire::runtime

// How well the nearest neighbours of features tell an image's class: the weighted vote of Wu et al. (CVPR 2018), as
// Caron et al., Emerging Properties in Self-Supervised Vision Transformers (ICCV 2021), evaluate with it.
#pragma once

#include <cstdint>
#include <span>

namespace rewire::runtime {

struct KnnOptions {
  std::int64_t neighbours = 20;  // all, where the bank has fewer
  double temperature = 0.07;
  std::int64_t classes = 0;
};

/// Shares of the queries whose label has the most votes, and is among the five classes with the most.
struct KnnAccuracy {
  double top1 = 0, top5 = 0;
};

/// Rows of `width` numbers, of a bank and of queries, with a label each. Rows are divided by their lengths; the
/// `neighbours` rows of the bank with the largest products s with a query vote exp(s / temperature) for their labels.
/// Of equal products the row that stands first is nearer, of equal votes the lower class has more. The same numbers on
/// any number of threads. UserError where an option or a label is out of range, a number is not finite, or there is
/// nothing to compare.
KnnAccuracy knn_accuracy(std::span<const float> bank, std::span<const std::int64_t> bank_labels,
                         std::span<const float> queries, std::span<const std::int64_t> query_labels,
                         std::int64_t width, const KnnOptions& options);

}  // namespace rewire::runtime

// Accuracy of nearest-neighbour classification on features: the weighted vote of Wu et al. (CVPR 2018), as
// Caron et al., Emerging Properties in Self-Supervised Vision Transformers (ICCV 2021), evaluate with it.
#pragma once

#include <cstdint>
#include <span>

namespace rewire::runtime {

struct KnnOptions {
  std::int64_t neighbours = 20;  // all, if the bank has fewer
  double temperature = 0.07;
  std::int64_t classes = 0;
};

/// The shares of queries whose label has the most votes (top1) or is among the five with the most (top5).
struct KnnAccuracy {
  double top1 = 0, top5 = 0;
};

/// Classifies queries by a bank, both rows of `width` numbers with a label per row. Rows are divided by
/// their lengths. The `neighbours` rows of the bank with the largest products s with a query vote exp(s /
/// temperature) for their labels. On equal products the earlier row is nearer, on equal votes the lower
/// class wins. The result does not depend on the number of threads. Throws UserError if an option or a label
/// is out of range, a number is not finite, or there are no rows to compare.
KnnAccuracy knn_accuracy(std::span<const float> bank, std::span<const std::int64_t> bank_labels,
                         std::span<const float> queries, std::span<const std::int64_t> query_labels,
                         std::int64_t width, const KnnOptions& options);

}  // namespace rewire::runtime

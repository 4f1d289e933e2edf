// Accuracy of a network's features during training, by the weighted vote of each test image's nearest
// training images (runtime/measure/knn.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/exec/engine.h"
#include "runtime/measure/metrics.h"
#include "runtime/network/data_feed.h"

namespace rewire::runtime {

/// Returns the metrics' names for these data, without FeatureProgram::prefix: knn_top1, and knn_top5 if
/// there are enough classes (programs::tells_top5).
std::vector<std::string> neighbour_metric_names(const DataFeed& bank, const DataFeed& queries);

/// A program (image) -> (features f32[batch, width]).
struct FeatureProgram {
  const ir::Function& function;
  std::string_view prefix = "";
};

struct NeighbourOptions {
  std::int64_t neighbours = 20;
  std::int64_t images = 0;  // of `bank`, the first ones; 0: all
};

/// Returns the metrics. Both feeds evaluate in the programs' batch size. Returns nothing if `go_on`, called
/// before each batch, is false.
std::optional<MetricValues> neighbour_metrics(Engine& engine, const std::vector<FeatureProgram>& programs,
                                              const DataFeed& bank, const DataFeed& queries,
                                              const NeighbourOptions& options,
                                              const std::function<bool()>& go_on);

}  // namespace rewire::runtime

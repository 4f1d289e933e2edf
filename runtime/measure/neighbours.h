// How well features tell classes, while a network trains: the weighted vote of each test image's nearest training images
// (runtime/measure/knn.h).
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

/// What an evaluation tells of neighbours in these data, each name after FeatureProgram::prefix: knn_top1, and knn_top5
/// where there are enough classes (programs::tells_top5).
std::vector<std::string> neighbour_metric_names(const DataFeed& bank, const DataFeed& queries);

/// (image) -> (features f32[batch, width])
struct FeatureProgram {
  const ir::Function& function;
  std::string_view prefix = "";
};

struct NeighbourOptions {
  std::int64_t neighbours = 20;
  std::int64_t images = 0;  // of `bank`, the first ones; 0: all
};

/// Both feeds are of evaluation, in the programs' batch. Nothing where `go_on` says no, which is asked before each batch.
std::optional<MetricValues> neighbour_metrics(Engine& engine, const std::vector<FeatureProgram>& programs,
                                              const DataFeed& bank, const DataFeed& queries,
                                              const NeighbourOptions& options,
                                              const std::function<bool()>& go_on);

}  // namespace rewire::runtime

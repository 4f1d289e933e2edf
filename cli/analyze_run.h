// rewire analyze RUN: diagnostics of a trained network on its test images, at one checkpoint or at all.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/network/network.h"

namespace rewire::cli {

struct AnalyzeRunRequest {
  runtime::NetworkRequest network;  // its model is the run folder
  std::string checkpoint, engine;
  std::int64_t images = 0, largest_jacobian = 0;
  bool averages = false, conditioning = false, json = false;
};

/// Prints tables or an object. Throws UserError if the folder is not a run or has fewer images than a batch.
void analyze_run(const AnalyzeRunRequest& request);

}  // namespace rewire::cli

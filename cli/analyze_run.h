// rewire analyze RUN: the diagnostics of a trained network on its test images, of one checkpoint or of all.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/network/network.h"

namespace rewire::cli {

struct AnalyzeRunRequest {
  runtime::NetworkRequest network;  // its model is the folder
  std::string checkpoint, engine;
  std::int64_t images = 0, largest_jacobian = 0;
  bool averages = false, conditioning = false, json = false;
};

/// Prints tables, or an object. UserError where the folder is no run, or has fewer images than a batch.
void analyze_run(const AnalyzeRunRequest& request);

}  // namespace rewire::cli

// rewire analyze RUN: the streams of a trained network, join by join, on its test images.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/train/network.h"

namespace rewire::cli {

struct AnalyzeRunRequest {
  runtime::NetworkRequest network;  // its model is the folder
  std::string checkpoint, engine;
  std::int64_t images = 0;
  bool averages = false, json = false;
};

/// Prints a table, or an object. UserError where the folder is no run, or has fewer images than a batch.
void analyze_run(const AnalyzeRunRequest& request);

}  // namespace rewire::cli

// bench --data: what the data and the steps of a recipe give alone and together, and which of them limits training.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/data_times.h"
#include "ir/module.h"
#include "runtime/exec/benchmark.h"
#include "runtime/exec/engine.h"
#include "runtime/network/data_feed.h"
#include "runtime/network/network.h"

namespace rewire::cli {

/// The training data of a recipe as an engine takes them.
struct BenchData {
  /// Throws UserError if the data are not labelled images that fit the network.
  BenchData(const runtime::Network& network, const runtime::Recipe& with, const std::string& engine);
  runtime::Recipe recipe;
  runtime::NetworkFace face;
  runtime::DataFeed feed;
};

struct DataLimit {
  AloneTimes alone;
  double mix_seconds = 0;  // of MixUp and CutMix, for alone's images
  LoaderTimes loader;
  int threads = 1, cores = 1;  // threads that prepare batches; cores that they can use
  std::int64_t prefetch = 1;
  std::int64_t images = 0, input_bytes = 0;  // of a step; input_bytes: copied to the engine
  double step_seconds = 0;                   // with the same inputs each time
  double seconds = 0, waited = 0;            // of a step on the data, and of it until they were there

  /// Images per second that the threads reach in a part that takes one of them so long for all of alone's images.
  double rate_of(double part) const {
    return static_cast<double>(alone.images) / part * std::min(threads, cores);
  }
  double loader_rate() const { return static_cast<double>(loader.images) / loader.seconds; }
  double step_rate() const { return static_cast<double>(images) / step_seconds; }
  double rate() const { return static_cast<double>(images) / seconds; }
};

/// Times the data alone, and `steps` steps on them. `programs`: those of a step, timed as `fed`.
DataLimit measure_data(runtime::Engine& engine, const ir::Module& module,
                       const std::vector<runtime::TimedProgram>& programs, const BenchData& data,
                       const runtime::RoundTimes& fed, std::int64_t steps);
/// Says in one line what limits training, and what to do.
std::string verdict(const DataLimit& limit);
void print_data(const DataLimit& limit);
nlohmann::ordered_json to_json(const DataLimit& limit);

}  // namespace rewire::cli

// A network with its weights, as a command line names them: a run's, or a file's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/module.h"
#include "runtime/network/network.h"
#include "runtime/run/run_folder.h"
#include "runtime/run/run_weights.h"

namespace rewire::runtime {

/// Returns `request` for the network of a run: the folder replaces its MODEL.
NetworkRequest request_of_run(NetworkRequest request, const RunFolder& folder);

struct TrainedRequest {
  NetworkRequest network;  // its model is a run folder, or a recipe, a module or a name of the zoo
  std::string weights;     // a file, instead of the run's
  std::string checkpoint;  // the run's checkpoint: best, last or its name; "": the last
  bool averages = false;   // the averages of the run's weights (train.ema), instead of them
};

struct TrainedNetwork {
  Network network;
  RunWeights weights;      // no file: none is named, and the network is no run's
  std::int64_t epoch = 0;  // whose plugins are on: the last that the run has trained in
  std::optional<RunFolder> run;
};

/// The treatment of a network without weights from a run or a file.
enum class Untrained : std::uint8_t { refused, allowed };

/// Finds network and weights. Throws UserError if a choice among a run's weights is made without a run, or
/// beside a file.
TrainedNetwork find_trained(const TrainedRequest& request, Untrained untrained = Untrained::refused);

/// Returns the weights for `module`, the network in trained.epoch. Throws UserError if they are of another
/// strategy (check_origin).
TensorMap read_trained_weights(TrainedNetwork& trained, const ir::Module& module);

}  // namespace rewire::runtime

// A network with its weights, as a command line names them: those of a run, or of a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/module.h"
#include "runtime/network/network.h"
#include "runtime/run/run_folder.h"
#include "runtime/run/run_weights.h"

namespace rewire::runtime {

/// `request` for the network of a run: the folder takes the place of its MODEL.
NetworkRequest request_of_run(NetworkRequest request, const RunFolder& folder);

struct TrainedRequest {
  NetworkRequest network;  // its model is a run folder, or a recipe, a module or a name of the zoo
  std::string weights;     // a file, instead of the run's
  std::string checkpoint;  // of the run: best, last or a checkpoint's name; "": the last
  bool averages = false;   // of the run's weights (train.ema), instead of them
};

struct TrainedNetwork {
  Network network;
  RunWeights weights;      // of no file: none is named, and the network is of no run
  std::int64_t epoch = 0;  // whose plugins are on: the last that the run has trained in
  std::optional<RunFolder> run;
};

/// What to do where neither a run nor a file has weights.
enum class Untrained : std::uint8_t { refused, allowed };

/// UserError where a choice among the weights of a run is made of a network of no run, or beside a file.
TrainedNetwork find_trained(const TrainedRequest& request, Untrained untrained = Untrained::refused);

/// The weights for `module`, the network as it is in trained.epoch. UserError where they are of another strategy
/// (check_origin).
TensorMap read_trained_weights(TrainedNetwork& trained, const ir::Module& module);

}  // namespace rewire::runtime

#include "runtime/run/trained_network.h"

#include <filesystem>
#include <utility>

#include "ir/error.h"

namespace rewire::runtime {

NetworkRequest request_of_run(NetworkRequest request, const RunFolder& folder) {
  request.run = folder.path();
  request.model = folder.file("recipe.toml");
  return request;
}

TrainedNetwork find_trained(const TrainedRequest& request, Untrained untrained) {
  const std::string& model = request.network.model;
  const bool is_run = std::filesystem::is_directory(model);
  if (request.averages || !request.checkpoint.empty()) {
    const char* option = request.averages ? "--ema" : "--checkpoint";
    if (!is_run) user_error("{} chooses among the weights of a run, but {} is not a run", option, model);
    if (!request.weights.empty())
      user_error("{} chooses among the weights of the run: remove it, or --weights {}", option,
                 request.weights);
  }
  TrainedNetwork trained{{}, {request.weights, std::nullopt}, 0, std::nullopt};
  if (!is_run) {
    if (request.weights.empty() && untrained == Untrained::refused)
      user_error("{} is not a run's folder: give its weights with --weights FILE", model);
    trained.network = resolve_network(request.network);
    return trained;
  }
  trained.run.emplace(RunFolder::open(model));
  if (request.weights.empty()) {
    trained.weights = find_run_weights(*trained.run, request.checkpoint,
                                       request.averages ? WeightsOf::averages : WeightsOf::steps);
  }
  trained.network = resolve_network(request_of_run(request.network, *trained.run));
  trained.epoch = trained.weights.checkpoint ? last_epoch(trained.weights.checkpoint->position)
                                             : trained.network.recipe.train.epochs - 1;
  return trained;
}

TensorMap read_trained_weights(TrainedNetwork& trained, const ir::Module& module) {
  const WeightsOrigin origin = origin_of(trained.network, trained.epoch);
  return read_run_weights(module, trained.weights,
                          {.origin = &origin, .other_strategy = trained.network.other_strategy});
}

}  // namespace rewire::runtime

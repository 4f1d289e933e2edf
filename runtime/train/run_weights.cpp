#include "runtime/train/run_weights.h"

#include <utility>

#include "runtime/train/run_loop.h"

namespace rewire::runtime {

RunWeights find_run_weights(const RunFolder& run, const std::string& checkpoint, WeightsOf which) {
  RunWeights weights;
  weights.checkpoint =
      checkpoint.empty() ? read_last_weights(run, which) : read_named_weights(run, checkpoint, which);
  weights.file = weights.checkpoint ? weights.checkpoint->file
                                    : run.file(which == WeightsOf::averages ? kFinalAverages : kFinalWeights);
  return weights;
}

TensorMap read_run_weights(const ir::Module& module, RunWeights& weights, const WeightsFit& how) {
  if (!weights.checkpoint) return read_weights(module, weights.file, how);
  return fit_weights(module, std::move(weights.checkpoint->content), weights.file, how);
}

}  // namespace rewire::runtime

#include "runtime/train/run_weights.h"

#include <string_view>
#include <utility>

#include "runtime/train/run_loop.h"

namespace rewire::runtime {

RunWeights find_run_weights(const RunFolder& run, const std::string& checkpoint, WeightsOf which) {
  RunWeights weights;
  weights.run = run.path();
  weights.checkpoint =
      checkpoint.empty() ? read_last_weights(run, which) : read_named_weights(run, checkpoint, which);
  weights.file = weights.checkpoint ? weights.checkpoint->file
                                    : run.file(which == WeightsOf::averages ? kFinalAverages : kFinalWeights);
  return weights;
}

TensorMap read_run_weights(const ir::Module& module, RunWeights& weights, const WeightsFit& how) {
  if (!weights.checkpoint) {
    const FilePlace file =
        weights.run.empty()
            ? FilePlace::of_user(weights.file)
            : FilePlace::below(weights.run, std::string_view(weights.file).substr(weights.run.size() + 1));
    return read_weights(module, file, how);
  }
  return fit_weights(module, std::move(weights.checkpoint->content), weights.file, how);
}

}  // namespace rewire::runtime

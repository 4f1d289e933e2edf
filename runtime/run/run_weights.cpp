#include "runtime/run/run_weights.h"

#include <string_view>
#include <utility>

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

const std::map<std::string, std::string>& metadata_of(RunWeights& weights) {
  if (weights.checkpoint) return weights.checkpoint->content.metadata;
  if (!weights.content) {
    const FilePlace file =
        weights.run.empty()
            ? FilePlace::of_user(weights.file)
            : FilePlace::below(weights.run, std::string_view(weights.file).substr(weights.run.size() + 1));
    weights.content = read_safetensors(file);
  }
  return weights.content->metadata;
}

TensorMap read_run_weights(const ir::Module& module, RunWeights& weights, const WeightsFit& how) {
  metadata_of(weights);
  SafetensorsFile& content = weights.checkpoint ? weights.checkpoint->content : *weights.content;
  return fit_weights(module, std::move(content), weights.file, how);
}

}  // namespace rewire::runtime

// The weights of a run folder: of its last checkpoint, of one that is named, or of the end.
#pragma once

#include <optional>
#include <string>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"
#include "runtime/network/weights.h"
#include "runtime/run/checkpoint.h"
#include "runtime/run/run_folder.h"

namespace rewire::runtime {

struct RunWeights {
  std::string file;                             // for messages
  std::optional<CheckpointWeights> checkpoint;  // nothing: of a run without checkpoints, the file of its end
  std::string run = "";  // the folder that the file of its end is in; "": the user named `file`
  std::optional<SafetensorsFile> content = {};  // of `file`, once it has been read
};

/// What the file says of itself; reads it where that has not been done.
const std::map<std::string, std::string>& metadata_of(RunWeights& weights);

/// `checkpoint`: best, last or a checkpoint's name; "": the last. Errors as of read_last_weights() and
/// read_named_weights().
RunWeights find_run_weights(const RunFolder& run, const std::string& checkpoint, WeightsOf which);

/// The weights that `module` has, which it must have all of; takes what was read.
TensorMap read_run_weights(const ir::Module& module, RunWeights& weights, const WeightsFit& how = {});

}  // namespace rewire::runtime

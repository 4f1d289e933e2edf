// The weights of a run folder: of its last checkpoint, of a named one, or of its end.
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
  std::optional<CheckpointWeights> checkpoint;  // nothing: a run without checkpoints, the file of its end
  std::string run = "";  // the folder of that file of its end; "": the user named `file`
  std::optional<SafetensorsFile> content = {};  // of `file`, once it has been read
};

/// Returns the file's metadata, and reads the file if that has not been done.
const std::map<std::string, std::string>& metadata_of(RunWeights& weights);

/// Finds the weights. `checkpoint`: best, last or a checkpoint's name; "": the last. Errors as for
/// read_last_weights() and read_named_weights().
RunWeights find_run_weights(const RunFolder& run, const std::string& checkpoint, WeightsOf which);

/// Returns the weights of `module`, all of which must be there, and consumes what was read.
TensorMap read_run_weights(const ir::Module& module, RunWeights& weights, const WeightsFit& how = {});

}  // namespace rewire::runtime

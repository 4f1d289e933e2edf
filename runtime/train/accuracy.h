// How good a network is on a labelled set: one pass of the program `eval`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/data/loader.h"
#include "runtime/exec/engine.h"

namespace rewire::runtime {

struct Accuracy {
  double loss = 0;            // mean cross-entropy, without label smoothing
  double top1 = 0, top5 = 0;  // fractions of the images
  std::int64_t images = 0;
  double seconds = 0;
};

/// One pass over the loader's data with `program` (add_eval_program). `go_on` is asked before each batch,
/// with the batches done; nothing is returned when it says no.
std::optional<Accuracy> measure_accuracy(Engine& engine, const std::string& program, Loader& loader,
                                         const std::function<bool(std::int64_t done)>& go_on);

}  // namespace rewire::runtime

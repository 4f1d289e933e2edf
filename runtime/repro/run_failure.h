// A run's step that is not finite, found again from its last checkpoint.
#pragma once

#include <optional>
#include <string>

#include "runtime/network/network.h"
#include "runtime/repro/case.h"

namespace rewire::runtime {

/// Trains on from the last checkpoint of the run, or from its beginning where it has none, with the batches that the run
/// had, in the programs of the first epoch, until a step is not finite; nothing where none is within an epoch. Writes
/// nothing in the folder. UserError on train.accumulate above 1, and on data that are missing.
std::optional<ReproCase> non_finite_of_run(const Network& network, const std::string& run);

}  // namespace rewire::runtime

// Finds a run's step that is not finite again, from the run's last checkpoint.
#pragma once

#include <optional>
#include <string>

#include "runtime/network/network.h"
#include "runtime/repro/case.h"

namespace rewire::runtime {

/// Trains on from the run's last checkpoint, or its beginning if there is none, with the run's own batches
/// and the programs of its first epoch, until a step is not finite. Returns nothing if none is within an
/// epoch. Writes nothing in the folder. Throws UserError if train.accumulate or train.shards is above 1, or data are
/// missing.
std::optional<ReproCase> non_finite_of_run(const Network& network, const std::string& run);

}  // namespace rewire::runtime

// The time that a card should take for each launch of a program, by the time model. The card need not be present.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/cuda/time_model.h"
#include "runtime/exec/engine.h"

namespace rewire::runtime {

struct PredictedTime {
  LaunchTime time;
  std::string_view bound;    // what bounds it: codegen::cuda::bound_name()
  double least_seconds = 0;  // a lower bound (codegen/cuda/time_model.h)
};

/// Returns the times in descending order. Launches of the same code are one row, with the names of `rewire bench
/// --profile`; products have no algorithm in their name, because the device chooses it.
std::vector<PredictedTime> predicted_times(const codegen::Program& program,
                                           const codegen::cuda::DeviceTarget& target,
                                           const codegen::cuda::Card& card, bool tf32);

}  // namespace rewire::runtime

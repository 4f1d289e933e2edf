// Chooses cuBLASLt's algorithm for each product of a module's programs. A tuner chooses once per shape, by
// timing on this device: among the heuristic's first 32, on random numbers. One that is slower than the best so
// far by 30 % leaves after its first run. The key is the product's full name, the answer the algorithm's text
// (codegen/library). An engine takes the answers from the record.
#pragma once

#include "runtime/exec/cuda/device_programs.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// The most seconds that candidates of all products may run together. The remaining ones are the
/// heuristic's, with a line in the log.
inline constexpr double kGemmSeconds = 10;

void choose_algorithms(DevicePrograms& device, Tuner& tuner);

}  // namespace rewire::runtime

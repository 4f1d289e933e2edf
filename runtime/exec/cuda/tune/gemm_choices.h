// Which of cuBLASLt's algorithms multiplies each product of a module's programs: chosen once a shape, as a
// tuner chooses, by timing on this device. The key is the product's full name, the answer the algorithm's
// text (codegen/library). An engine takes them from the record.
#pragma once

#include "runtime/exec/cuda/device_programs.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// Seconds that candidates of all products may run together; what is left then is the heuristic's, with a
/// line in the log.
inline constexpr double kGemmSeconds = 10;

void choose_algorithms(DevicePrograms& device, Tuner& tuner);

}  // namespace rewire::runtime

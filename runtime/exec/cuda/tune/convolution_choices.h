// Which engine of cuDNN's computes each convolution of a module's programs, and each gradient of one. Chosen once a
// shape, as a tuner chooses, by timing on this device. The key is the convolution's full name, the answer the
// engine's text (codegen/library). An engine takes them from the record.
#pragma once

#include "runtime/exec/cuda/device_programs.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// Seconds that candidates of all convolutions may run together; what is left then takes cuDNN's first, with a line
/// in the log.
inline constexpr double kConvolutionSeconds = 10;

/// On the device of the current context. What cuDNN has no plan for, the host computes, and is no choice.
void choose_convolutions(DevicePrograms& device, Tuner& tuner);

}  // namespace rewire::runtime

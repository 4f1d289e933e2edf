// Chooses the cuDNN engine for each convolution of a module's programs, and for each gradient of one. A
// tuner chooses once per shape, by timing on this device. The key is the convolution's full name, the answer
// the engine's text (codegen/library). An engine takes the answers from the record.
#pragma once

#include "runtime/exec/cuda/device_programs.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// The most seconds that candidates of all convolutions may run together. The remaining ones take cuDNN's
/// first, with a line in the log.
inline constexpr double kConvolutionSeconds = 10;

/// Chooses on the device of the current context. Convolutions without a plan of cuDNN run on the host,
/// without a choice.
void choose_convolutions(DevicePrograms& device, Tuner& tuner);

}  // namespace rewire::runtime

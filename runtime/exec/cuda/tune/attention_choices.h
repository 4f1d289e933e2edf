// Who computes each attention of a module's programs, and each gradient of one: our kernels, or an engine of
// cuDNN's. Chosen once a shape, as a tuner chooses, by timing on this device; ours unless cuDNN gains 3 %.
// The key is the shape's full name, the answer kOwnKernels or the engine's text (codegen/library). An engine
// takes them from the record.
#pragma once

#include "runtime/exec/cuda/device_programs.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// Seconds that candidates of all shapes may run together; what is left then is ours this time, with a line
/// in the log.
inline constexpr double kAttentionSeconds = 4;

/// On the device of the current context. Where cuDNN is missing, refuses or fails, ours is taken. A recorded
/// engine is taken if cuDNN's heuristic names it; its plan is the engine's to make, who takes ours should
/// cuDNN refuse it after all. Ours are compiled as `compiling` says.
void choose_attention(DevicePrograms& device, const CompileOptions& compiling, Tuner& tuner);

}  // namespace rewire::runtime

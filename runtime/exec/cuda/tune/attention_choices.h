// Chooses our kernels or an engine of cuDNN for each attention of a module's programs, and for each gradient
// of one. A tuner chooses once per shape, by timing on this device; our kernels unless cuDNN gains 3 %. The
// key is the shape's full name, the answer kOwnKernels or the engine's text (codegen/library). An engine
// takes the answers from the record.
#pragma once

#include "runtime/exec/cuda/device_programs.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// The most seconds that candidates of all shapes may run together. The remaining shapes use our kernels
/// this time, with a line in the log.
inline constexpr double kAttentionSeconds = 4;

/// Chooses on the device of the current context. Our kernels are taken if cuDNN is missing, refuses or
/// fails; they are compiled as `compiling` says. A recorded engine is taken if cuDNN's heuristic names it.
/// Rewire's engine makes its plan, and takes our kernels if cuDNN refuses after all.
void choose_attention(DevicePrograms& device, const CompileOptions& compiling, Tuner& tuner);

}  // namespace rewire::runtime

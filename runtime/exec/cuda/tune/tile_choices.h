// Chooses how each kernel of a module's programs is cut into threads. A tuner chooses once per structure, by
// timing the cost model's few candidates on this device. The key is schedule_key(), the answer a schedule's
// text (codegen/cuda/schedule.h). An engine takes the answers from the record.
#pragma once

#include <string>

#include "runtime/exec/cuda/device_programs.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// The most seconds that candidates of all kernels may run together. The remaining ones take the cost
/// model's in this process, with a line in the log.
inline constexpr double kTileSeconds = 10;

/// Chooses the schedules; of kernels of little cost, only those whose answer was given. If timing is not
/// allowed, the model's answers are recorded all the same, so that a resumed run has none to make.
void choose_schedules(DevicePrograms& device, const CompileOptions& compiling, Tuner& tuner);

}  // namespace rewire::runtime

// How each kernel of a module's programs is cut into threads: chosen once a structure, as a tuner chooses, by
// timing the cost model's few candidates on this device. The key is schedule_key(), the answer a schedule's
// text (codegen/cuda/schedule.h). An engine takes them from the record.
#pragma once

#include <string>

#include "runtime/exec/cuda/device_programs.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// Seconds that candidates of all kernels may run together; what is left then takes the cost model's in this
/// process, with a line in the log.
inline constexpr double kTileSeconds = 10;

/// Kernels that count little are asked only where their answer was given. Where the clock may not be asked,
/// the model's answers stand in the record all the same: a run that goes on has none to make.
void choose_schedules(DevicePrograms& device, const CompileOptions& compiling, Tuner& tuner);

}  // namespace rewire::runtime

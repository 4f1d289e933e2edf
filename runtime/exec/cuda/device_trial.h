// Runs function "trial" of a module on device 0 to time it. Its inputs are made on the device, the host
// holds nothing, and its launches are timed as one graph (device_timing.h).
#pragma once

#include "ir/module.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// Makes a trial of a verified module. Throws RuntimeFailure if the driver fails, out of memory included,
/// now or when the trial runs.
Trial make_device_trial(const ir::Module& module, const ChoiceRecord& choices,
                        const CompileOptions& compiling);

}  // namespace rewire::runtime

// Function "trial" of a module on device 0, for its time alone: what it reads is made on the device, nothing
// of it is on the host, and its launches are timed as one graph (device_timing.h).
#pragma once

#include "ir/module.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// The module must be verified. RuntimeFailure where the driver fails, out of memory included; then and
/// later.
Trial make_device_trial(const ir::Module& module, const ChoiceRecord& choices,
                        const CompileOptions& compiling);

}  // namespace rewire::runtime

// An engine of cuDNN as a racer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/exec/cuda/device_timing.h"
#include "runtime/exec/tune/race.h"

namespace rewire::runtime {

/// Returns "engine 6, knobs 24=7" for "cuDNN 9.19.0 engine 6, knobs 24=7"; the answer keeps the version.
std::string engine_label(const std::string& engine);

/// Makes the racer of this candidate, which writes `written`. It leaves the race, or is struck, with a line in
/// the log, if a call of cuDNN fails.
Racer engine_racer(std::size_t candidate, const std::string& engine, GraphTimer& timer,
                   std::function<void()> run, std::vector<WrittenMemory> written);

}  // namespace rewire::runtime

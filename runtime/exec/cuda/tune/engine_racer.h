// An engine of cuDNN's in a race.
#pragma once

#include <functional>
#include <string>

#include "runtime/exec/cuda/device_timing.h"
#include "runtime/exec/tune/race.h"

namespace rewire::runtime {

/// "engine 6, knobs 24=7" of "cuDNN 9.19.0 engine 6, knobs 24=7": the version stands with the answer.
std::string engine_label(const std::string& engine);

/// Timed as this candidate. Out of the race, with a line in the log, where a call of cuDNN's fails.
Racer engine_racer(std::size_t candidate, const std::string& engine, GraphTimer& timer,
                   std::function<void()> run);

}  // namespace rewire::runtime

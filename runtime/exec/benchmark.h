// Times the programs of an engine on random inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Makes an input per argument: floats uniform in [-1, 1), integers in [0, categories(its name)), bytes without
/// categories in [0, 256), the same every time.
TensorMap random_inputs(const ir::Function& function,
                        const std::function<std::int64_t(std::string_view)>& categories);

/// A function of the module, run `times` times in a row with the same inputs.
struct TimedProgram {
  std::string function;
  TensorMap inputs;
  std::int64_t times = 1;
};

/// The memory from which a device takes the inputs of each run: the host's, as in training, or its own,
/// where they stay. A CPU has one memory.
enum class Feed : std::uint8_t { host, resident };

/// Seconds per round.
struct RoundTimes {
  double median = 0, fastest = 0;
};

/// Returns the seconds of each of `rounds` rounds, as time_rounds() counts them.
std::vector<double> round_seconds(Engine& engine, const std::vector<TimedProgram>& programs,
                                  std::int64_t warm_up, std::int64_t rounds, Feed feed = Feed::host);
/// Returns the times of one round or more.
RoundTimes times_of(std::vector<double> seconds);

/// Times `rounds` rounds through the programs, after `warm_up` uncounted ones. As in training, a device gets
/// a round before it has finished the previous one.
RoundTimes time_rounds(Engine& engine, const std::vector<TimedProgram>& programs, std::int64_t warm_up,
                       std::int64_t rounds, Feed feed = Feed::host);

}  // namespace rewire::runtime

#include "runtime/exec/cuda/tune/engine_racer.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "ir/error.h"
#include "runtime/device/log.h"

namespace rewire::runtime {

std::string engine_label(const std::string& engine) {
  return engine.substr(engine.find("engine "));
}

Racer engine_racer(std::size_t candidate, const std::string& engine, GraphTimer& timer,
                   std::function<void()> run, std::vector<WrittenMemory> written) {
  const auto unless_it_fails = [engine](const auto& call, auto otherwise) {
    try {
      return call();
    } catch (const RuntimeFailure& failure) {
      write_log(LogLevel::warning, fmt::format("{} is not timed: {}", engine, failure.what()));
      return otherwise;
    }
  };
  return {candidate,
          [=, &timer] {
            return unless_it_fails([&] { return timer.time(candidate, run); },
                                   std::numeric_limits<double>::infinity());
          },
          [=, &timer] { return unless_it_fails([&] { return timer.repeats(run, written); }, false); }};
}

}  // namespace rewire::runtime

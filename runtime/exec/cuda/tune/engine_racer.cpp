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
                   std::function<void()> run) {
  return {candidate, [candidate, engine, &timer, run = std::move(run)] {
            try {
              return timer.time(candidate, run);
            } catch (const RuntimeFailure& failure) {
              write_log(LogLevel::warning, fmt::format("{} is not timed: {}", engine, failure.what()));
              return std::numeric_limits<double>::infinity();
            }
          }};
}

}  // namespace rewire::runtime

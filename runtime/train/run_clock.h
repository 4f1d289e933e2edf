// The seconds that a training run spends in steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

namespace rewire::runtime {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds in steps since the last line of metrics and in this epoch, and estimates of what is to come.
struct RunClock {
  double line_seconds = 0, epoch_seconds = 0;
  double step_seconds = 0;        // of a step of late
  double evaluation_seconds = 0;  // of the last evaluation
  std::int64_t line_began = 0;    // the step that the line begins after

  void begin_step() { step_began_ = seconds_now(); }
  /// Ends a step, with which the next one begins. Returns its seconds.
  double end_step() {
    const double now = seconds_now(), took = now - std::exchange(step_began_, now);
    line_seconds += took;
    epoch_seconds += took;
    step_seconds = step_seconds == 0 ? took : 0.9 * step_seconds + 0.1 * took;
    return took;
  }

 private:
  double step_began_ = 0;
};

}  // namespace rewire::runtime

// Times candidates against each other: interleaved, by the best run of each, so that other load on the
// machine does not decide.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace rewire::runtime {

struct Racer {
  std::size_t candidate = 0;
  std::function<double()> run;  // returns the seconds it took
  /// Runs twice on the same numbers and returns true if the results have the same bits. Empty: not checked.
  std::function<bool()> repeats = {};
  double seconds = std::numeric_limits<double>::infinity();  // the best run's seconds
};

struct RaceLimits {
  double budget_seconds = 0;
  /// A racer, but the first, leaves after a warm-up run that is slower by more than this factor than the best
  /// so far.
  double behind = std::numeric_limits<double>::infinity();
  /// Racers after the first `at_least` enter only until this many seconds have passed.
  std::size_t at_least = 0;
  double entry_seconds = std::numeric_limits<double>::infinity();
};

/// Runs to warm up, then runs rounds for as long as the budget lasts by this clock. Removes racers that are
/// far slower than others. Returns false if time ran out before a few rounds were complete.
bool race(std::vector<Racer>& racers, const std::function<double()>& clock, const RaceLimits& limits);

}  // namespace rewire::runtime

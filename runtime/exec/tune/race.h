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
  std::function<double()> run;                               // returns the seconds it took
  double seconds = std::numeric_limits<double>::infinity();  // the best run's seconds
};

/// Runs to warm up, then runs rounds for as long as the budget lasts by this clock. Removes racers that are
/// far slower than others. Returns false if time ran out before a few rounds were complete.
bool race(std::vector<Racer>& racers, const std::function<double()>& clock, double budget_seconds);

}  // namespace rewire::runtime

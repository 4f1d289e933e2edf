// Times candidates against each other: interleaved, and the best run of each counts, so that what else the
// machine does meanwhile decides nothing.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace rewire::runtime {

struct Racer {
  std::size_t candidate = 0;
  std::function<double()> run;                               // the seconds it took
  double seconds = std::numeric_limits<double>::infinity();  // of its best run
};

/// Runs to warm up, then rounds for as long as the budget lasts by this clock. Racers that are far behind are
/// taken out of the list. False if time ran out before a few rounds were whole.
bool race(std::vector<Racer>& racers, const std::function<double()>& clock, double budget_seconds);

}  // namespace rewire::runtime

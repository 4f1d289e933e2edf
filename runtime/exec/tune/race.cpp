#include "runtime/exec/tune/race.h"

#include <algorithm>

namespace rewire::runtime {
namespace {

constexpr int kWarmUp = 2, kRounds = 9, kFewestRounds = 3;
/// A candidate slower than the fastest by more than this factor after warm-up leaves the race.
constexpr double kHopeless = 3;
/// A candidate slower by more than this factor in its first run gets no second warm-up run. That first run
/// does not count against the budget.
constexpr double kOutAtOnce = 20;

}  // namespace

bool race(std::vector<Racer>& racers, const std::function<double()>& clock, const RaceLimits& limits) {
  constexpr double kOut = std::numeric_limits<double>::infinity();
  const double start = clock();
  double deadline = start + limits.budget_seconds, fastest = kOut;
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    for (Racer& racer : racers) {
      const double now = clock();
      if (now > deadline) return round >= kWarmUp + kFewestRounds;
      const auto place = static_cast<std::size_t>(&racer - racers.data());
      if (round == 0 && place >= limits.at_least && now > start + limits.entry_seconds) continue;
      if (round > 0 && round < kWarmUp && racer.seconds > kOutAtOnce * fastest) continue;
      const double seconds = racer.run();
      racer.seconds = std::min(racer.seconds, seconds);
      fastest = std::min(fastest, seconds);
      if (round == 0 && seconds > kOutAtOnce * fastest) deadline += seconds;
      if (round < kWarmUp && place > 0 && racer.seconds > limits.behind * fastest) racer.seconds = kOut;
    }
    if (round + 1 != kWarmUp) continue;
    std::erase_if(racers, [&](const Racer& racer) { return racer.seconds > kHopeless * fastest; });
    for (Racer& racer : racers) racer.seconds = kOut;
  }
  return true;
}

}  // namespace rewire::runtime

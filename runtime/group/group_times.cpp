#include "runtime/group/group_times.h"

#include <algorithm>
#include <chrono>
#include <functional>

namespace rewire::runtime {
namespace {

/// Returns the seconds of a call; all ranks begin it together.
double seconds_of(Group& group, const std::function<void()>& call) {
  group.barrier();
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Returns the largest of the ranks' numbers.
double slowest(Group& group, double own) {
  std::vector<double> all(static_cast<std::size_t>(group.size()));
  group.gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  return *std::ranges::max_element(all);
}

double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return numbers[numbers.size() / 2];
}

/// Computes in registers, so that it takes nothing of the memory that the sum uses.
void compute(std::int64_t rounds) {
  double x = 1;
  for (std::int64_t i = 0; i < rounds; ++i) x = x * 0.999999 + 1e-9;
  [[maybe_unused]] static volatile double kept;
  kept = x;
}

}  // namespace

double SumTimes::hidden() const {
  const double shorter = std::min(sum_s, compute_s);
  return shorter == 0 ? 0 : std::clamp((sum_s + compute_s - both_s) / shorter, 0.0, 1.0);
}

double SumTimes::sent_per_s(int ranks) const {
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / sum_s;
}

std::vector<SumTimes> time_sums(Group& group, const std::vector<std::size_t>& sizes, int runs) {
  constexpr std::int64_t kRounds = 1'000'000;
  const double million = slowest(group, seconds_of(group, [] { compute(kRounds); }));
  std::vector<SumTimes> times;
  for (const std::size_t bytes : sizes) {
    std::vector<float> numbers(bytes / sizeof(float), 1);
    std::vector<double> sums, computations, both;
    std::int64_t rounds = 0;
    for (int run = -1; run < runs; ++run) {  // the first warms up, and says how long to compute
      const double sum = slowest(group, seconds_of(group, [&] { group.wait(group.start_sum(numbers)); }));
      if (run < 0) {
        rounds = static_cast<std::int64_t>(sum / million * static_cast<double>(kRounds)) + 1;
        continue;
      }
      sums.push_back(sum);
      computations.push_back(slowest(group, seconds_of(group, [&] { compute(rounds); })));
      both.push_back(slowest(group, seconds_of(group, [&] {
                               const Group::Ticket ticket = group.start_sum(numbers);
                               compute(rounds);
                               group.wait(ticket);
                             })));
    }
    times.push_back({numbers.size() * sizeof(float), median(sums), median(computations), median(both)});
  }
  return times;
}

}  // namespace rewire::runtime

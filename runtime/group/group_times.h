// How fast the ranks of a group add numbers, and how much of that time a computation hides.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/group/group.h"

namespace rewire::runtime {

/// Times of one size; medians over the runs, of the slowest rank.
struct SumTimes {
  std::size_t bytes = 0;  // of each rank's array
  double sum_s = 0;       // from start_sum to the end of wait, with nothing beside it
  double compute_s = 0;   // of a computation that takes about as long, by itself
  double both_s = 0;      // of that computation between start_sum and wait
  /// Returns the share of the shorter of the two that the longer one hides, 0 to 1.
  double hidden() const;
  /// Returns the bytes that each rank sends in a second.
  double sent_per_s(int ranks) const;
};

/// Times sums of arrays of these sizes, `runs` times each. All ranks call it and get the same result.
std::vector<SumTimes> time_sums(Group& group, const std::vector<std::size_t>& sizes, int runs);

}  // namespace rewire::runtime

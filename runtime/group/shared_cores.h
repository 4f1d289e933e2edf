// The cores of a host, divided among the ranks that run on it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "runtime/group/group.h"

namespace rewire::runtime {

/// The cores of a rank.
struct RankCores {
  std::array<char, 64> host{};  // its name, cut off
  std::array<std::uint64_t, 16>
      bound{};     // a bit for each core that it may run on (device/process.h: allowed_cores)
  int usable = 1;  // usable_cores(): fewer than bound, if there is a quota of CPU time
};

/// Returns the share of rank `rank`, at least 1. A core is divided equally among the ranks that may run on it; a quota
/// among all ranks of its host.
int core_share(std::span<const RankCores> ranks, int rank);

/// Returns core_share() of this rank. All ranks call it together.
int own_cores(Group& group);

}  // namespace rewire::runtime

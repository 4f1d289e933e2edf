// The limits on this process from its control groups, as in a container, for versions 1 and 2. A group's
// limit holds for all groups below it, so the least of them counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rewire::runtime {

/// The limits of the process; empty if there is none, or none can be seen.
struct CgroupLimits {
  std::optional<int> cores;                  // the quota of CPU time in cores, rounded up
  std::optional<std::int64_t> memory_bytes;  // for all processes of a group together
  std::optional<std::int64_t> memory_left;   // left of that; file cache that can be dropped counts as left
};

/// Reads the limits. `root` replaces "/": it has proc/self/mountinfo, proc/self/cgroup, and the groups'
/// files where mountinfo says they are.
CgroupLimits cgroup_limits(const std::string& root = "/");

}  // namespace rewire::runtime

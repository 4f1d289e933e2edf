// What a container may use of its machine: the limits of the control groups that this process is in, of
// either version. A group's limit holds for all groups below it, so the least of them counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rewire::runtime {

/// Nothing where there is no limit, or none can be seen.
struct CgroupLimits {
  std::optional<int> cores;                  // the quota of CPU time in cores, rounded up
  std::optional<std::int64_t> memory_bytes;  // that a group's processes may take together
  std::optional<std::int64_t> memory_left;   // of that, what they can still take: the file cache that can be
                                             // dropped counts as left
};

/// `root` stands for "/": below it are proc/self/mountinfo, proc/self/cgroup, and the groups' files where the
/// former says they are.
CgroupLimits cgroup_limits(const std::string& root = "/");

}  // namespace rewire::runtime

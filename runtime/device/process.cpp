#include "runtime/device/process.h"

#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "runtime/device/cgroup.h"
#include "runtime/device/sanitized.h"

namespace rewire::runtime {

std::int64_t peak_memory_bytes() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{1024} * usage.ru_maxrss;  // Linux counts in KiB
}

std::optional<std::int64_t> heap_bytes() {
#ifdef REWIRE_SANITIZED
  return std::nullopt;
#else
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);  // in the arenas, and mapped one by one
#endif
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

int usable_cores(const std::string& root) {
  const int cores = static_cast<int>(allowed_cores().size());
  return std::max(1, std::min(cores, cgroup_limits(root).cores.value_or(cores)));
}

std::optional<std::int64_t> available_memory_bytes(const std::string& root) {
  const std::optional<std::int64_t> left = cgroup_limits(root).memory_left;
  std::ifstream file(root + "/proc/meminfo");
  for (std::string name; file >> name;) {
    std::int64_t kibibytes = 0;
    if (name != "MemAvailable:" || !(file >> kibibytes)) continue;
    const std::int64_t free = std::int64_t{1024} * kibibytes;
    return std::min(free, left.value_or(free));
  }
  return left;
}

std::int64_t total_memory_bytes(const std::string& root) {
  const auto machine = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  return std::min(machine, cgroup_limits(root).memory_bytes.value_or(machine));
}

}  // namespace rewire::runtime

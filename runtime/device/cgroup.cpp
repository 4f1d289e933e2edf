// Finds a process's control groups and reads their files; see cgroup.h, cgroups(7) and proc(5).
#include "runtime/device/cgroup.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;  // version 1 writes a number beyond it

template <class Least>
void keep_least(std::optional<Least>& least, Least candidate) {
  least = least ? std::min(*least, candidate) : candidate;
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// Returns nullopt for "max".
std::optional<std::int64_t> number(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

/// Returns the only number of a file.
std::optional<std::int64_t> number_in(const fs::path& path) {
  std::string word;
  std::ifstream(path) >> word;
  return number(word);
}

/// Returns the number after a name in a file of such pairs; 0 if the name is missing.
std::int64_t number_of(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string key, value; file >> key >> value;) {
    if (key == name) return number(value).value_or(0);
  }
  return 0;
}

bool in_list(const std::string& list, std::string_view wanted) {
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) {
    if (item == wanted) return true;
  }
  return false;
}

/// Returns the path of this process's group in a hierarchy: that of version 2 for "", else that of
/// version 1 with this controller.
std::optional<std::string> group_path(const fs::path& root, std::string_view controller) {
  for (const std::string& line : lines_of(root / "proc/self/cgroup")) {  // "4:cpu,cpuacct:/a/b"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : in_list(controllers, controller))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

struct Mount {
  fs::path shown, point;  // a group of the hierarchy, and the folder that it is mounted at
};

std::optional<Mount> mount_of(const fs::path& root, std::string_view controller) {
  for (const std::string& line : lines_of(root / "proc/self/mountinfo")) {
    // "35 31 0:32 /a /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = words_of(line.substr(0, dash)),
                                   behind = words_of(line.substr(dash + 3));
    if (before.size() < 5 || behind.empty()) continue;
    const bool found = controller.empty()
                           ? behind[0] == "cgroup2"
                           : behind[0] == "cgroup" && behind.size() > 2 && in_list(behind[2], controller);
    if (found) return Mount{before[3], before[4]};
  }
  return std::nullopt;
}

/// Returns the folders of this process's group and of those above it, as far as they are visible here.
std::vector<fs::path> group_folders(const fs::path& root, std::string_view controller) {
  const std::optional<std::string> path = group_path(root, controller);
  const std::optional<Mount> mount = mount_of(root, controller);
  if (!path || !mount) return {};
  const fs::path top = root / mount->point.relative_path();
  // A path outside the mounted part belongs to another namespace: only the top concerns us here.
  fs::path below = fs::path(*path).lexically_relative(mount->shown);
  if (below == "." || (!below.empty() && *below.begin() == "..")) below.clear();
  std::vector<fs::path> folders;
  for (; !below.empty(); below = below.parent_path()) folders.push_back(top / below);
  folders.push_back(top);
  return folders;
}

void limit_cores(CgroupLimits& limits, std::int64_t quota, std::int64_t period) {
  if (quota > 0 && period > 0)
    keep_least(limits.cores, static_cast<int>(std::min<std::int64_t>((quota - 1) / period + 1, 1 << 20)));
}

/// `cache`: the part of `used` that can be dropped.
void limit_memory(CgroupLimits& limits, std::int64_t most, std::int64_t used, std::int64_t cache) {
  if (most >= kNoLimit) return;
  keep_least(limits.memory_bytes, most);
  keep_least(limits.memory_left, std::max<std::int64_t>(most - std::max<std::int64_t>(used - cache, 0), 0));
}

void read_version_2(CgroupLimits& limits, const fs::path& root) {
  for (const fs::path& group : group_folders(root, "")) {
    const std::vector<std::string> lines = lines_of(group / "cpu.max");  // "150000 100000" or "max 100000"
    const std::vector<std::string> words = lines.empty() ? std::vector<std::string>() : words_of(lines[0]);
    if (words.size() == 2) limit_cores(limits, number(words[0]).value_or(0), number(words[1]).value_or(0));
    if (const auto most = number_in(group / "memory.max")) {
      limit_memory(limits, *most, number_in(group / "memory.current").value_or(0),
                   number_of(group / "memory.stat", "inactive_file"));
    }
  }
}

void read_version_1(CgroupLimits& limits, const fs::path& root) {
  for (const fs::path& group : group_folders(root, "cpu")) {
    limit_cores(limits, number_in(group / "cpu.cfs_quota_us").value_or(0),
                number_in(group / "cpu.cfs_period_us").value_or(0));
  }
  for (const fs::path& group : group_folders(root, "memory")) {
    if (const auto most = number_in(group / "memory.limit_in_bytes")) {
      limit_memory(limits, *most, number_in(group / "memory.usage_in_bytes").value_or(0),
                   number_of(group / "memory.stat", "total_inactive_file"));
    }
  }
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  read_version_2(limits, root);
  read_version_1(limits, root);
  return limits;
}

}  // namespace rewire::runtime

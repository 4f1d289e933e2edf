// Limits of control groups, read from trees of files as Linux shows them to a process in a container.
#include <fstream>

#include "runtime/device/cgroup.h"
#include "runtime/device/process.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// What stands for "/".
class Tree {
 public:
  Tree& add(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
    return *this;
  }
  Tree& add(const std::string& path, std::int64_t number) { return add(path, std::to_string(number)); }
  std::string root() const { return folder_.path().string(); }

 private:
  test::TemporaryFolder folder_;
};

/// The hierarchy of version 2, as systems have it that know no other.
void mount_version_2(Tree& tree, const std::string& group) {
  tree.add("proc/self/mountinfo",
           "22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n"
           "26 22 0:24 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate");
  tree.add("proc/self/cgroup", "0::" + group);
}

/// Two hierarchies of version 1, one of which has two controllers, and one of version 2 without any.
void mount_version_1(Tree& tree, const std::string& shown) {
  tree.add("proc/self/mountinfo",
           "31 22 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs rw,mode=755\n"
           "32 31 0:29 " +
               shown +
               " /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
               "35 31 0:32 " +
               shown +
               " /sys/fs/cgroup/memory rw shared:12 master:1 - cgroup cgroup rw,memory\n"
               "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  tree.add("proc/self/cgroup", "4:memory:/box/7\n3:cpu,cpuacct:/box/7\n1:name=systemd:/\n0::/");
}

TEST_CASE("the least limit of a group and those above it holds, in version 2") {
  Tree tree;
  mount_version_2(tree, "/outer/inner");
  tree.add("sys/fs/cgroup/outer/cpu.max", "150000 100000")
      .add("sys/fs/cgroup/outer/memory.max", 4096 * kMiB)
      .add("sys/fs/cgroup/outer/memory.current", 4000 * kMiB)
      .add("sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file " + std::to_string(1000 * kMiB))
      .add("sys/fs/cgroup/outer/inner/cpu.max", "max 100000")
      .add("sys/fs/cgroup/outer/inner/memory.max", 1024 * kMiB)
      .add("sys/fs/cgroup/outer/inner/memory.current", 600 * kMiB)
      .add("sys/fs/cgroup/outer/inner/memory.stat", "inactive_file " + std::to_string(100 * kMiB));
  const CgroupLimits limits = cgroup_limits(tree.root());
  CHECK(limits.cores == 2);  // 1.5, rounded up
  CHECK(limits.memory_bytes == 1024 * kMiB);
  CHECK(limits.memory_left == 524 * kMiB);
  tree.add("sys/fs/cgroup/outer/memory.stat", "inactive_file 0");
  CHECK(cgroup_limits(tree.root()).memory_left == 96 * kMiB);
  tree.add("sys/fs/cgroup/outer/memory.current", 5000 * kMiB);
  CHECK(cgroup_limits(tree.root()).memory_left == 0);
}

TEST_CASE("a container that sees its own group as the top has that group's limits") {
  const std::string group = GENERATE("/", "/../elsewhere");
  CAPTURE(group);
  Tree tree;
  mount_version_2(tree, group);
  tree.add("sys/fs/cgroup/cpu.max", "400000 100000").add("sys/fs/cgroup/memory.max", 512 * kMiB);
  const CgroupLimits limits = cgroup_limits(tree.root());
  CHECK(limits.cores == 4);
  CHECK(limits.memory_bytes == 512 * kMiB);
  CHECK(limits.memory_left == 512 * kMiB);
}

TEST_CASE("version 1 has a hierarchy a controller, mounted whole or from the container's group on") {
  const bool whole = GENERATE(true, false);
  CAPTURE(whole);
  Tree tree;
  mount_version_1(tree, whole ? "/" : "/box/7");
  const std::string below = whole ? "/box/7/" : "/";
  tree.add("sys/fs/cgroup/cpu,cpuacct" + below + "cpu.cfs_quota_us", 50000)
      .add("sys/fs/cgroup/cpu,cpuacct" + below + "cpu.cfs_period_us", 100000)
      .add("sys/fs/cgroup/memory" + below + "memory.limit_in_bytes", 256 * kMiB)
      .add("sys/fs/cgroup/memory" + below + "memory.usage_in_bytes", 200 * kMiB)
      .add("sys/fs/cgroup/memory" + below + "memory.stat",
           "inactive_file 1\ntotal_inactive_file " + std::to_string(50 * kMiB));
  const CgroupLimits limits = cgroup_limits(tree.root());
  CHECK(limits.cores == 1);
  CHECK(limits.memory_bytes == 256 * kMiB);
  CHECK(limits.memory_left == 106 * kMiB);
}

TEST_CASE("no limit is seen where none is set, and where files say nothing that can be read") {
  Tree nothing, unlimited, version_1, broken;
  mount_version_2(unlimited, "/a");
  unlimited.add("sys/fs/cgroup/a/cpu.max", "max 100000").add("sys/fs/cgroup/a/memory.max", "max");
  mount_version_1(version_1, "/");
  version_1.add("sys/fs/cgroup/cpu,cpuacct/box/7/cpu.cfs_quota_us", -1)
      .add("sys/fs/cgroup/cpu,cpuacct/box/7/cpu.cfs_period_us", 100000)
      .add("sys/fs/cgroup/memory/box/7/memory.limit_in_bytes", "9223372036854771712");
  mount_version_2(broken, "/a");
  broken.add("sys/fs/cgroup/a/cpu.max", "some words").add("sys/fs/cgroup/a/memory.max", "12x");
  broken.add("sys/fs/cgroup/cpu.max", "100000 0");
  for (const Tree* tree : {&nothing, &unlimited, &version_1, &broken}) {
    const CgroupLimits limits = cgroup_limits(tree->root());
    CHECK_FALSE(limits.cores.has_value());
    CHECK_FALSE(limits.memory_bytes.has_value());
    CHECK_FALSE(limits.memory_left.has_value());
    CHECK(usable_cores(tree->root()) == usable_cores("/nowhere"));
  }
}

TEST_CASE("a process uses what its affinity and its groups both allow, and at least a core") {
  Tree tree;
  mount_version_2(tree, "/a");
  tree.add("proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB");
  const int cores = usable_cores(tree.root());
  CHECK(cores >= 1);
  CHECK(available_memory_bytes(tree.root()) == 4096 * kMiB);
  tree.add("sys/fs/cgroup/a/cpu.max", "1000 100000");
  CHECK(usable_cores(tree.root()) == 1);
  tree.add("sys/fs/cgroup/a/cpu.max", "100000000 100000");
  CHECK(usable_cores(tree.root()) == cores);
  tree.add("sys/fs/cgroup/a/memory.max", 64 * kMiB);
  CHECK(available_memory_bytes(tree.root()) == 64 * kMiB);
  CHECK(total_memory_bytes(tree.root()) == 64 * kMiB);
  tree.add("sys/fs/cgroup/a/memory.max", std::int64_t{1} << 50);
  CHECK(available_memory_bytes(tree.root()) == 4096 * kMiB);
}

}  // namespace
}  // namespace rewire::runtime

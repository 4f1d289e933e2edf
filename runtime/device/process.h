// Resources that this process has used, and may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rewire::runtime {

/// Returns the largest memory that was resident at once, in bytes.
std::int64_t peak_memory_bytes();

/// Returns the bytes on the heap now; nothing in a sanitizer's build, whose allocator does not report them.
std::optional<std::int64_t> heap_bytes();

/// Returns the processors that this process may run on, by the system's numbers; none if they cannot be read.
std::vector<int> allowed_cores();

/// Returns the number of cores that this process may run on, or fewer if its control groups have a quota of
/// CPU time (cgroup.h); at least 1. Results never depend on it. `root` replaces "/".
int usable_cores(const std::string& root = "/");

/// Returns the bytes of memory that this process can still take, as the kernel estimates it: the machine's,
/// or less if its control groups have a limit. Nothing if neither is known.
std::optional<std::int64_t> available_memory_bytes(const std::string& root = "/");

/// Returns the memory that this process could have if it were alone: the machine's, or its control groups'
/// limit.
std::int64_t total_memory_bytes(const std::string& root = "/");

}  // namespace rewire::runtime

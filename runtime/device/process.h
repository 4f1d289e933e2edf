// What this process has used so far, and what it may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rewire::runtime {

/// The most memory that was resident at once, in bytes.
std::int64_t peak_memory_bytes();

/// What is allocated on the heap now, in bytes; nothing in a sanitizer's build, whose allocator does not
/// tell.
std::optional<std::int64_t> heap_bytes();

/// The cores that this process may use: those it may run on, or fewer where its control groups have a quota
/// of CPU time (cgroup.h); at least 1. What is computed never depends on it. `root` stands for "/".
int usable_cores(const std::string& root = "/");

/// What this process can still take of memory, as the kernel estimates it, in bytes: of the machine's, or
/// less where its control groups have a limit. Nothing where neither is known.
std::optional<std::int64_t> available_memory_bytes(const std::string& root = "/");

/// The memory that this process could have if it were alone: the machine's, or its control groups' limit.
std::int64_t total_memory_bytes(const std::string& root = "/");

}  // namespace rewire::runtime

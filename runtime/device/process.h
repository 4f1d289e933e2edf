// What this process has used so far, and what it may use.
#pragma once

#include <cstdint>
#include <optional>

namespace rewire::runtime {

/// The most memory that was resident at once, in bytes.
std::int64_t peak_memory_bytes();

/// What is allocated on the heap now, in bytes; nothing in a sanitizer's build, whose allocator does not
/// tell.
std::optional<std::int64_t> heap_bytes();

/// The cores that this process may run on; at least 1.
int usable_cores();

/// What processes can still take of the machine's memory, as the kernel estimates it, in bytes; nothing where
/// it does not say.
std::optional<std::int64_t> available_memory_bytes();

}  // namespace rewire::runtime

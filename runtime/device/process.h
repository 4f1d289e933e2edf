// What this process has used so far.
#pragma once

#include <cstdint>
#include <optional>

namespace rewire::runtime {

/// The most memory that was resident at once, in bytes.
std::int64_t peak_memory_bytes();

/// What is allocated on the heap now, in bytes; nothing in a sanitizer's build, whose allocator does not
/// tell.
std::optional<std::int64_t> heap_bytes();

}  // namespace rewire::runtime

// What this process has used so far.
#pragma once

#include <cstdint>

namespace rewire::runtime {

/// The most memory that was resident at once, in bytes.
std::int64_t peak_memory_bytes();

}  // namespace rewire::runtime

#include "runtime/device/process.h"

#include <malloc.h>
#include <sys/resource.h>

#include "runtime/device/sanitized.h"

namespace rewire::runtime {

std::int64_t peak_memory_bytes() {
  struct rusage usage {};
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

}  // namespace rewire::runtime

#include "runtime/device/process.h"

#include <sys/resource.h>

namespace rewire::runtime {

std::int64_t peak_memory_bytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{1024} * usage.ru_maxrss;  // Linux counts in KiB
}

}  // namespace rewire::runtime

// Copy bandwidth by size: in each cache, and in memory.
#pragma once

#include <vector>

#include "bench/timing.h"
#include "runtime/device/thread_pool.h"

namespace rewire::bench {

struct CopyTime {
  double bytes = 0;  // of source and destination together
  Seconds seconds;   // for a byte
};

/// memcpy of 0.5 MB to 1 GB on all threads of the pool, every byte counted twice: read and written.
/// Ascending; the last size is larger than any cache.
std::vector<CopyTime> measure_copies(runtime::ThreadPool& pool);

/// What `bytes` take at the highest rate of any copy that touches as many or more: no launch that touches
/// them is faster than a copy that finds them in the nearest place they fit.
Seconds copy_seconds(const std::vector<CopyTime>& copies, double bytes);

}  // namespace rewire::bench

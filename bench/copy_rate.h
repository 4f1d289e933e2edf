// Copy bandwidth by size: in each cache, and in memory.
#pragma once

#include <vector>

#include "runtime/exec/thread_pool.h"

namespace rewire::bench {

struct CopyRate {
  double bytes = 0;  // of source and destination together
  double bytes_per_second = 0;
};

/// memcpy of 0.5 MB to 1 GB on all threads of the pool, every byte counted twice: read and written.
/// Ascending; the last size is larger than any cache.
std::vector<CopyRate> measure_copies(runtime::ThreadPool& pool);

/// The highest rate of any copy that touches as many bytes or more: no launch that touches `bytes` is faster
/// than a copy that finds them in the nearest place they fit.
double copy_rate_of(const std::vector<CopyRate>& rates, double bytes);

}  // namespace rewire::bench

// The best of repeated runs, and memory whose pages exist.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>

namespace rewire::bench {

/// Seconds of the fastest run: at least 5 runs, and as many as fit in 0.2 s, after one that warms up.
template <class Run>
double best_seconds(Run run) {
  using Clock = std::chrono::steady_clock;
  run();
  double best = 1e30;
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(200);
  for (int round = 0; round < 5 || Clock::now() < until; ++round) {
    const Clock::time_point start = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

/// 64-byte aligned memory, written once: zeros.
class Memory {
 public:
  explicit Memory(std::size_t bytes)
      : data_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}))) {
    std::memset(data_.get(), 0, bytes);
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace rewire::bench

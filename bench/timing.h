// The best and the median of repeated runs, and memory whose pages exist.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace rewire::bench {

/// What runs took: the fastest, which others on the machine disturbed least, and the one in the middle, which
/// they disturbed as much as they do whatever else runs at that time.
struct Seconds {
  double best = 0, median = 0;

  /// The lower of each.
  friend Seconds least(const Seconds& a, const Seconds& b) {
    return {std::min(a.best, b.best), std::min(a.median, b.median)};
  }
  Seconds& operator+=(const Seconds& other) {
    best += other.best;
    median += other.median;
    return *this;
  }
  friend Seconds operator*(double factor, const Seconds& s) { return {factor * s.best, factor * s.median}; }
};

/// At least 5 runs, and as many as fit in 0.2 s, after one that warms up.
template <class Run>
Seconds measure_seconds(Run run) {
  using Clock = std::chrono::steady_clock;
  run();
  std::vector<double> taken;
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(200);
  while (taken.size() < 5 || Clock::now() < until) {
    const Clock::time_point start = Clock::now();
    run();
    taken.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::sort(taken.begin(), taken.end());
  return {taken.front(), taken[taken.size() / 2]};
}

/// 64-byte aligned memory, written once: zeros.
class Memory {
 public:
  explicit Memory(std::size_t bytes)
      : data_(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}))) {
    std::memset(data_.get(), 0, bytes);
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace rewire::bench

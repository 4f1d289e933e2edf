// A pool of compute threads. A job is a range [0, count) cut into pieces of fixed size. Any thread may take
// any piece, so results must not depend on it (sums are cut by shape, codegen/tile/tile.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace rewire::runtime {

class ThreadPool {
 public:
  /// Computes [begin, end) as worker 0 … threads - 1, the index of its scratch memory; 0 is the thread that
  /// called run.
  using Work = std::function<void(std::int64_t begin, std::int64_t end, int worker)>;

  /// `threads` >= 1 includes the calling thread: threads - 1 are started, and sleep while there is nothing
  /// to do. They take signals of their own faults only.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  /// Calls `work` on pieces of at most `grain` items that cover [0, count) and returns when all are done. If
  /// a piece throws, pieces not yet begun are dropped and the first exception is thrown again here. Callers
  /// on different threads take turns; `work` itself must not call run (InternalError).
  void run(std::int64_t count, std::int64_t grain, const Work& work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::runtime

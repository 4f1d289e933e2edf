// Workers spin for a moment after each job, since the next launch of a step follows within microseconds,
// then sleep. A job does not wait for a worker that wakes after it is over: a worker enters a job by a
// compare-and-swap on `state_`, and only while the job is open.
#include "runtime/device/thread_pool.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

constexpr int kSpins = 2000;  // about 50 us

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// state_ = job number x kJob | kOpen while workers may enter | how many are inside.
constexpr std::uint64_t kInside = 0xffff;
constexpr std::uint64_t kOpen = 0x10000;
constexpr std::uint64_t kJob = 0x20000;

thread_local bool inside_work = false;

/// Blocks all signals of the calling thread except those that a fault raises. A signal handler needs a frame
/// on the stack, but the stack pointer of oneDNN's sgemm may point elsewhere (cli/stop.cpp).
void block_signals() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&signals, fault);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

struct ThreadPool::Impl {
  explicit Impl(int threads) : thread_count(threads) {
    workers.reserve(static_cast<std::size_t>(threads));
    try {
      for (int worker = 1; worker < threads; ++worker)
        workers.emplace_back([this, worker] { serve(worker); });
    } catch (const std::system_error& error) {
      const std::size_t started = workers.size() + 1;
      stop();
      user_error("cannot start thread {} of {}: {}; lower train.threads", started + 1, threads,
                 error.code().message());
    } catch (...) {
      stop();
      throw;
    }
  }

  ~Impl() { stop(); }

  void stop() {
    {
      const std::lock_guard lock(sleep_mutex);
      stopping.store(true);
    }
    wake.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void serve(int worker) {
    block_signals();
    std::uint64_t last_job = 0;
    while (std::uint64_t job = enter(last_job)) {
      last_job = job;
      take_pieces(worker);
      state.fetch_sub(1);
    }
  }

  /// Waits for an open job other than `last_job` and enters it; 0 when the pool stops.
  std::uint64_t enter(std::uint64_t last_job) {
    while (true) {
      for (int spin = 0; spin < kSpins; ++spin) {
        if (const std::uint64_t job = try_enter(last_job)) return job;
        if (stopping.load(std::memory_order_relaxed)) return 0;
        pause_cpu();
      }
      std::unique_lock lock(sleep_mutex);
      sleepers.fetch_add(1);  // before state is read again: run() stores state, then reads sleepers
      wake.wait(lock, [&] { return stopping.load() || is_new(state.load(), last_job); });
      sleepers.fetch_sub(1);
    }
  }

  static bool is_new(std::uint64_t seen, std::uint64_t last_job) {
    return (seen & kOpen) != 0 && seen / kJob != last_job;
  }

  std::uint64_t try_enter(std::uint64_t last_job) {
    std::uint64_t seen = state.load(std::memory_order_relaxed);
    while (is_new(seen, last_job)) {
      if (state.compare_exchange_weak(seen, seen + 1)) return seen / kJob;
    }
    return 0;
  }

  void take_pieces(int worker) {
    inside_work = true;
    while (true) {
      const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count || failed.load(std::memory_order_relaxed)) break;
      try {
        (*work)(begin, std::min(begin + grain, count), worker);
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
      }
    }
    inside_work = false;
  }

  /// Runs a job on one thread, or of one piece, without waking a worker.
  void run_alone(std::int64_t job_count, std::int64_t job_grain, const Work& job_work) {
    const std::lock_guard turn(run_mutex);
    inside_work = true;
    try {
      for (std::int64_t begin = 0; begin < job_count; begin += job_grain) {
        job_work(begin, std::min(begin + job_grain, job_count), 0);
      }
    } catch (...) {
      inside_work = false;
      throw;
    }
    inside_work = false;
  }

  void run(std::int64_t job_count, std::int64_t job_grain, const Work& job_work) {
    const std::lock_guard turn(run_mutex);
    count = job_count;
    grain = job_grain;
    work = &job_work;
    next.store(0, std::memory_order_relaxed);
    failed.store(false, std::memory_order_relaxed);
    failure = nullptr;
    state.store(++job_number * kJob | kOpen);
    if (sleepers.load() > 0) {
      {
        const std::lock_guard lock(sleep_mutex);
      }
      wake.notify_all();
    }
    take_pieces(0);
    state.fetch_and(~kOpen);
    for (int spin = 0; (state.load() & kInside) != 0; ++spin) {
      if (spin < kSpins) {
        pause_cpu();
      } else {
        std::this_thread::yield();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

  const int thread_count = 1;
  std::vector<std::thread> workers;
  std::mutex run_mutex;  // one job at a time

  // The job: written while no worker is inside, published by `state`.
  std::int64_t count = 0, grain = 1;
  const Work* work = nullptr;
  std::exception_ptr failure;
  std::uint64_t job_number = 0;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};

  std::atomic<std::uint64_t> state{0};
  std::atomic<bool> stopping{false};
  std::atomic<int> sleepers{0};
  std::mutex sleep_mutex;
  std::condition_variable wake;
};

ThreadPool::ThreadPool(int threads) {
  if (threads < 1 || threads > 4096) user_error("a thread pool takes 1 to 4096 threads, not {}", threads);
  impl_ = std::make_unique<Impl>(threads);
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const {
  return impl_->thread_count;
}

void ThreadPool::run(std::int64_t count, std::int64_t grain, const Work& work) {
  if (inside_work) internal_error("ThreadPool::run was called inside a running job");
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (impl_->thread_count > 1 && count > grain) return impl_->run(count, grain, work);
  impl_->run_alone(count, grain, work);
}

}  // namespace rewire::runtime

// The pool covers every item once, carries exceptions to the caller, and survives jobs of any size and
// rhythm.
#include "runtime/device/thread_pool.h"

#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "ir/error.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

TEST_CASE("every item is computed once, in pieces of at most the grain") {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (std::int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (std::int64_t grain : {0, 1, 3, 64, 5000}) {
        CAPTURE(threads, count, grain);
        std::vector<int> visits(static_cast<std::size_t>(count));  // pieces are disjoint: no atomics needed
        std::atomic<bool> pieces_fit{true};
        pool.run(count, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
          if (begin >= end || end - begin > std::max<std::int64_t>(grain, 1)) pieces_fit = false;
          if (worker < 0 || worker >= threads) pieces_fit = false;
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        CHECK(pieces_fit);
        CHECK(visits == std::vector<int>(static_cast<std::size_t>(count), 1));
      }
    }
  }
}

TEST_CASE("no two pieces run at once with one worker index") {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> busy(4);
  std::atomic<bool> clash{false};
  pool.run(2000, 1, [&](std::int64_t, std::int64_t, int worker) {
    auto& mine = busy[static_cast<std::size_t>(worker)];
    if (mine.fetch_add(1) != 0) clash = true;
    mine.fetch_sub(1);
  });
  CHECK_FALSE(clash);
}

TEST_CASE("the writes of a job are seen by the caller and by the next job") {
  ThreadPool pool(3);
  std::vector<std::int64_t> values(512);
  for (int round = 0; round < 200; ++round) {
    pool.run(512, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) values[static_cast<std::size_t>(i)] += i;
    });
  }
  CHECK(std::accumulate(values.begin(), values.end(), std::int64_t{0}) == 200 * (511 * 512 / 2));
}

TEST_CASE("jobs run after the workers fell asleep") {
  ThreadPool pool(4);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<std::int64_t> sum{0};
    pool.run(100, 1, [&](std::int64_t begin, std::int64_t, int) { sum += begin; });
    REQUIRE(sum == 99 * 100 / 2);
  }
}

TEST_CASE("a long job is shared with the other workers") {
  ThreadPool pool(2);
  std::set<std::thread::id> seen;
  std::mutex mutex;
  std::condition_variable shared;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  pool.run(64, 1, [&](std::int64_t, std::int64_t, int) {
    std::unique_lock lock(mutex);
    seen.insert(std::this_thread::get_id());
    shared.notify_all();
    shared.wait_until(lock, deadline, [&] { return seen.size() == 2; });
  });
  CHECK(seen.size() == 2);
}

TEST_CASE("the first exception reaches the caller and the pool stays usable") {
  for (int threads : {1, 2, 4}) {
    CAPTURE(threads);
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      CHECK_THROWS_WITH(pool.run(64, 1,
                                 [](std::int64_t begin, std::int64_t, int) {
                                   if (begin % 8 == 3) throw RuntimeFailure("piece failed");
                                 }),
                        "piece failed");
      std::atomic<int> done{0};
      pool.run(10, 1, [&](std::int64_t, std::int64_t, int) { ++done; });
      REQUIRE(done == 10);
    }
  }
}

TEST_CASE("a job inside a job is refused") {
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    CHECK_THROWS_AS(
        pool.run(8, 1, [&](std::int64_t, std::int64_t, int) { pool.run(8, 1, [](auto, auto, auto) {}); }),
        InternalError);
  }
}

TEST_CASE("callers on several threads take turns") {
  ThreadPool pool(3);
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        pool.run(32, 2, [&](std::int64_t begin, std::int64_t end, int) { total += end - begin; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(total == 4 * 100 * 32);
}

TEST_CASE("threads of a pool leave signals to the one that called, but for their own faults") {
  ThreadPool pool(2);
  std::atomic<bool> is_checked{false};
  std::atomic<int> wrong{0};
  while (!is_checked) {
    pool.run(64, 1, [&](std::int64_t, std::int64_t, int worker) {
      sigset_t blocked;
      pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      const auto expect = [&](int signal, bool is_blocked) {
        wrong += (sigismember(&blocked, signal) == 1) != is_blocked ? 1 : 0;
      };
      for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPROF}) expect(signal, worker != 0);
      for (const int signal : {SIGSEGV, SIGFPE, SIGABRT}) expect(signal, false);
      if (worker != 0) is_checked = true;
    });
  }
  CHECK(wrong == 0);
}

TEST_CASE("a pool without threads is refused") {
  CHECK_THROWS_AS(ThreadPool(0), UserError);
}

}  // namespace
}  // namespace rewire::runtime

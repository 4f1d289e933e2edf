// One block at a time: its threads as fibers, its barriers and warp exchanges, its shared memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/cuda_shim/fiber.h"
#include "tests/cuda_shim/interface.h"
#include "tests/cuda_shim/launch.h"

namespace rewire::cuda_shim {

class BlockRunner {
 public:
  /// Runs block `index`, all of one member before the next's, on the calling OS thread. The seed is this
  /// block's own.
  void run(const KernelFunction& kernel, const Grid& grid, std::span<void* const> arguments,
           std::int64_t index, Order order, std::uint64_t seed);

 private:
  enum class State : std::uint8_t { ready, at_barrier, in_exchange, finished };

  struct Lane : rewire_shim::Thread {
    BlockRunner* owner = nullptr;
    Fiber fiber;
    State state = State::ready;
    rewire_shim::Place place{};
    unsigned mask = 0;
    std::uint64_t given = 0;
    std::array<std::uint64_t, rewire_shim::kWarp> received{};
    struct Copy {
      void* to;
      const void* from;
      unsigned bytes;
    };
    std::vector<Copy> copies;  // under way
  };

  static void start(void* lane);
  static void barrier(rewire_shim::Thread* thread, rewire_shim::Place place);
  static const std::uint64_t* exchange(rewire_shim::Thread* thread, rewire_shim::Place place, unsigned mask,
                                       std::uint64_t value);
  static void copy(rewire_shim::Thread* thread, void* to, const void* from, unsigned bytes);
  static void finish_copies(rewire_shim::Thread* thread);
  static void fail(rewire_shim::Thread* thread, rewire_shim::Place place, const char* message);
  static const rewire_shim::Runner kRunner;

  void prepare(const Grid& grid, std::int64_t index, Order order, std::uint64_t seed);
  void schedule();
  Lane& next();
  void make_ready(Lane& lane);
  void release_barrier();
  bool release_exchange(const Lane& last);
  std::string stuck() const;
  void check_shared(const Grid& grid) const;

  const KernelFunction* kernel_ = nullptr;
  std::span<void* const> arguments_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::size_t threads_ = 0;  // of the block; lanes_ may hold more
  FiberStacks stacks_;
  Order order_ = Order::in_order;
  std::size_t ready_count_ = 0;
  std::deque<std::size_t> queue_;                // the ready threads, in order
  std::vector<std::vector<std::size_t>> ready_;  // in another order: those of each warp
  std::vector<std::size_t> warps_;               // who goes first
  std::size_t at_barrier_ = 0, finished_ = 0;
  std::string failure_;
  std::mt19937_64 random_;
  std::unique_ptr<unsigned char[]> shared_;
  std::int64_t shared_capacity_ = -1;
};

}  // namespace rewire::cuda_shim

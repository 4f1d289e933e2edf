// Runs a grid of a kernel that was compiled for the host: the blocks on a few OS threads, one at a time on
// each, a block's threads as fibers of its OS thread.
//
// What a device leaves undefined ends the launch with a message that says which thread waits where: a barrier
// or a warp exchange that not all of its threads reach, or reach at different places of the text. Shared
// memory is NaN before each block, and guard bytes behind it are checked after each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace rewire_shim {
struct Thread;
}

namespace rewire::cuda_shim {

/// A kernel as REWIRE_SHIM_KERNEL and REWIRE_SHIM_FILE (device.h) export it.
struct KernelFunction {
  std::string name;  // for messages
  void (*run)(void* const* arguments) = nullptr;
  rewire_shim::Thread** (*current)() = nullptr;
};

struct Grid {
  std::int64_t blocks = 1;
  int threads = 32;  // of a block, up to 1024
  std::int64_t shared_bytes = 0;
  std::int64_t members = 1;  // of blockIdx.y
};

/// Whose turn it is. What a kernel computes must not depend on it: what does is a race.
enum class Order : std::uint8_t {
  in_order,     // blocks and threads by their numbers
  any_thread,   // blocks in a random order, and any thread that can run
  warps_ahead,  // one warp runs as far as barriers let it, then another: which first is drawn at each barrier
};

struct LaunchOptions {
  int workers = 2;  // OS threads
  Order order = Order::in_order;
  std::uint64_t seed = 1;  // of what is drawn
};

/// Two workers; 0: in order, even numbers: any thread, odd ones: warps ahead.
LaunchOptions order_of_seed(std::uint64_t seed);

class GridRunner {
 public:
  explicit GridRunner(const LaunchOptions& options = {});
  ~GridRunner();
  GridRunner(const GridRunner&) = delete;
  GridRunner& operator=(const GridRunner&) = delete;

  /// `arguments` by parameter of the kernel: pointers. RuntimeFailure if the kernel does what a device leaves
  /// undefined.
  void launch(const KernelFunction& kernel, const Grid& grid, std::span<void* const> arguments);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::cuda_shim

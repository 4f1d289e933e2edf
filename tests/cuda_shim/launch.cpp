// Blocks over the workers of a pool.
#include "tests/cuda_shim/launch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "ir/error.h"
#include "runtime/device/thread_pool.h"
#include "tests/cuda_shim/block.h"

namespace rewire::cuda_shim {
namespace {

constexpr int kMaxThreads = 1024;
constexpr std::int64_t kMaxMembers = 65535;
constexpr std::int64_t kPiecesPerWorker = 8;

void check(const KernelFunction& kernel, const Grid& grid) {
  if (grid.threads < 1 || grid.threads > kMaxThreads || grid.blocks < 1 ||
      grid.blocks > std::numeric_limits<std::int32_t>::max() || grid.members < 1 ||
      grid.members > kMaxMembers || grid.shared_bytes < 0) {
    throw RuntimeFailure(
        fmt::format("kernel '{}': no device launches {} x {} blocks of {} threads with {} bytes", kernel.name,
                    grid.blocks, grid.members, grid.threads, grid.shared_bytes));
  }
}

}  // namespace

LaunchOptions order_of_seed(std::uint64_t seed) {
  if (seed == 0) return {};
  return {2, seed % 2 == 0 ? Order::any_thread : Order::warps_ahead, seed};
}

struct GridRunner::Impl {
  explicit Impl(const LaunchOptions& launch_options)
      : options(launch_options), pool(options.workers), random(options.seed) {
    for (int i = 0; i < options.workers; ++i) runners.push_back(std::make_unique<BlockRunner>());
  }

  /// Block numbers in the order they are begun, and a seed for the threads of each.
  std::vector<std::int64_t> order_of(std::int64_t blocks) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(blocks));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    if (options.order != Order::in_order) std::shuffle(order.begin(), order.end(), random);
    return order;
  }

  LaunchOptions options;
  runtime::ThreadPool pool;
  std::mt19937_64 random;
  std::vector<std::unique_ptr<BlockRunner>> runners;  // by worker
};

GridRunner::GridRunner(const LaunchOptions& options) : impl_(std::make_unique<Impl>(options)) {}
GridRunner::~GridRunner() = default;

void GridRunner::launch(const KernelFunction& kernel, const Grid& grid, std::span<void* const> arguments) {
  check(kernel, grid);
  const std::int64_t blocks = grid.blocks * grid.members;
  const std::vector<std::int64_t> order = impl_->order_of(blocks);
  const std::uint64_t seed = impl_->random();
  const std::int64_t pieces = impl_->options.workers * kPiecesPerWorker;
  impl_->pool.run(
      blocks, (blocks + pieces - 1) / pieces, [&](std::int64_t begin, std::int64_t end, int worker) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t block = order[static_cast<std::size_t>(i)];
          impl_->runners[static_cast<std::size_t>(worker)]->run(
              kernel, grid, arguments, block, impl_->options.order, seed + static_cast<std::uint64_t>(block));
        }
      });
}

}  // namespace rewire::cuda_shim

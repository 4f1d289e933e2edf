#include "runtime/exec/cuda/device_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/nvrtc.h"
#include "ir/error.h"

namespace rewire::runtime {
namespace {

using cuda::Address;

constexpr int kThreads = 256;
constexpr const char* kSymbol = "add_received";
constexpr std::int64_t kNumberBytes = sizeof(float);

/// A kernel's parameters are addresses, so the count is in memory.
constexpr const char* kAdd = R"(
extern "C" __global__ void __launch_bounds__(256) add_received(float* to, const float* from, const i64* count) {
  const i64 i = blockIdx.x * 256ll + threadIdx.x;
  if (i < *count) to[i] += from[i];
}
)";

Address after(Address first, std::int64_t numbers) {
  return first + static_cast<Address>(numbers * kNumberBytes);
}

/// An addition of received numbers to a rank's own.
struct Addition {
  Address to, from, count;
  std::int64_t numbers;
};

/// What a rank does with one partner.
struct Step {
  int partner;
  std::vector<cuda::Communicator::Exchange> exchanges;
  std::vector<Addition> additions;
};

/// Looks every second, from a thread of its own, whether a sum has ended: the thread that waits for the device would wait
/// for ever if NCCL has lost a rank.
class SumWatch {
 public:
  SumWatch(const cuda::Communicator& communicator, Group& group, const cuda::Context& context)
      : communicator_(communicator), group_(group), thread_([this, &context] {
          context.enter();
          watch();
        }) {}
  ~SumWatch() {
    {
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  SumWatch(const SumWatch&) = delete;
  SumWatch& operator=(const SumWatch&) = delete;

  /// A sum has been put on the stream.
  void begun(const cuda::Stream& stream) {
    const std::scoped_lock lock(mutex_);
    end_.record(stream);
    begun_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void watch() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::seconds(1), [&] { return is_over_; })) {
      if (!begun_) continue;
      try {
        if (end_.happened()) {
          begun_.reset();
          continue;
        }
        if (const std::optional<std::string> failure = communicator_.failure())
          group_.abort(fmt::format("an exchange between GPUs failed: NCCL: {}", *failure));
      } catch (const RuntimeFailure&) {
        return;  // the device is lost: the thread that waits for it says so
      }
      if (Clock::now() - *begun_ > longest_)
        group_.abort(
            fmt::format("an exchange between GPUs has not ended after {} s (REWIRE_NCCL_TIMEOUT): NCCL has "
                        "lost a rank, or its network",
                        longest_.count()));
    }
  }

  const cuda::Communicator& communicator_;
  Group& group_;
  const std::chrono::seconds longest_ = longest_exchange();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  cuda::Event end_;
  std::optional<Clock::time_point> begun_;  // of a sum that has not ended
  std::thread thread_;
};

class DeviceSums final : public StateSums {
 public:
  DeviceSums(std::vector<DeviceNumbers> numbers, const cuda::Communicator& communicator, Group& group,
             const cuda::Context& context, const cuda::Stream& stream)
      : communicator_(communicator),
        stream_(stream),
        module_(
            codegen::cuda::compile_cubin(std::string(codegen::cuda::prelude()) + kAdd, context.facts().arch)
                .cubin,
            kSymbol),
        add_(module_.function(kSymbol, 0)),
        watch_(communicator, group, context) {
    std::int64_t most = 0;
    for (const DeviceNumbers& part : numbers) most += (part.count + 1) / 2;
    received_ = cuda::DeviceMemory(most * kNumberBytes, "numbers of other ranks");
    plan(std::move(numbers), group.rank(), group.size());
  }

  void add() override {
    for (const Step& step : steps_) {
      communicator_.exchange(step.exchanges, step.partner, stream_);
      for (const Addition& addition : step.additions) {
        const cuda::KernelGrid grid{.blocks = (addition.numbers + kThreads - 1) / kThreads,
                                    .threads = kThreads};
        const Address arguments[] = {addition.to, addition.from, addition.count};
        cuda::launch(add_, grid, arguments, stream_, kSymbol);
      }
    }
    watch_.begun(stream_);
  }

 private:
  /// Lists the steps: halves of what this rank is responsible for are exchanged and added, with ever farther partners;
  /// then the same parts travel back as sums.
  void plan(std::vector<DeviceNumbers> own, int rank, int size) {
    std::vector<std::vector<DeviceNumbers>> parts;
    std::vector<std::int64_t> counts;
    for (int distance = 1; distance < size; distance *= 2) {
      const bool is_lower = (rank & distance) == 0;
      Step step{.partner = rank ^ distance, .exchanges = {}, .additions = {}};
      Address received = received_.address();
      parts.push_back(own);
      for (DeviceNumbers& part : own) {
        const std::int64_t half = part.count / 2;
        const DeviceNumbers lower{part.first, half}, upper{after(part.first, half), part.count - half};
        const DeviceNumbers &kept = is_lower ? lower : upper, &given = is_lower ? upper : lower;
        step.exchanges.push_back({given.first, received, given.count, kept.count});
        if (kept.count > 0) {
          step.additions.push_back({kept.first, received, static_cast<Address>(counts.size()), kept.count});
          counts.push_back(kept.count);
        }
        received = after(received, kept.count);
        part = kept;
      }
      steps_.push_back(std::move(step));
    }
    for (int distance = size / 2; distance >= 1; distance /= 2) {
      Step step{.partner = rank ^ distance, .exchanges = {}, .additions = {}};
      for (std::size_t i = 0; i < own.size(); ++i) {
        const DeviceNumbers whole = parts.back()[i], sums = own[i];
        const bool is_lower = (rank & distance) == 0;
        const Address others = is_lower ? after(whole.first, sums.count) : whole.first;
        step.exchanges.push_back({sums.first, others, sums.count, whole.count - sums.count});
        own[i] = whole;
      }
      parts.pop_back();
      steps_.push_back(std::move(step));
    }
    store_counts(counts);
  }

  void store_counts(const std::vector<std::int64_t>& counts) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(counts));
    counts_ = cuda::DeviceMemory(static_cast<std::int64_t>(bytes.size()), "counts of numbers to add");
    stream_.copy_in(counts_.address(), bytes.data(), counts_.bytes(), "of counts of numbers to add");
    stream_.synchronise("after the counts of numbers to add");
    for (Step& step : steps_) {
      for (Addition& addition : step.additions)
        addition.count = counts_.address() + addition.count * sizeof(std::int64_t);
    }
  }

  const cuda::Communicator& communicator_;
  const cuda::Stream& stream_;
  cuda::Module module_;
  void* add_;
  cuda::DeviceMemory received_, counts_;
  std::vector<Step> steps_;
  SumWatch watch_;
};

}  // namespace

std::unique_ptr<cuda::Communicator> make_communicator(Group& group) {
  cuda::Communicator::Id id{};
  if (group.rank() == 0) id = cuda::Communicator::new_id();
  group.broadcast(id);
  return std::make_unique<cuda::Communicator>(id, group.rank(), group.size());
}

std::unique_ptr<StateSums> make_device_sums(std::vector<DeviceNumbers> numbers,
                                            const cuda::Communicator& communicator, Group& group,
                                            const cuda::Context& context, const cuda::Stream& stream) {
  return std::make_unique<DeviceSums>(std::move(numbers), communicator, group, context, stream);
}

}  // namespace rewire::runtime

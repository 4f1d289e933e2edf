#include "runtime/exec/cuda/device_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/nvrtc.h"

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

class DeviceSums final : public StateSums {
 public:
  DeviceSums(std::vector<DeviceNumbers> numbers, const cuda::Communicator& communicator, const Group& group,
             const cuda::Stream& stream, int arch)
      : communicator_(communicator),
        stream_(stream),
        module_(codegen::cuda::compile_cubin(std::string(codegen::cuda::prelude()) + kAdd, arch).cubin,
                kSymbol),
        add_(module_.function(kSymbol, 0)) {
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
};

}  // namespace

std::unique_ptr<cuda::Communicator> make_communicator(Group& group) {
  cuda::Communicator::Id id{};
  if (group.rank() == 0) id = cuda::Communicator::new_id();
  group.broadcast(id);
  return std::make_unique<cuda::Communicator>(id, group.rank(), group.size());
}

std::unique_ptr<StateSums> make_device_sums(std::vector<DeviceNumbers> numbers,
                                            const cuda::Communicator& communicator, const Group& group,
                                            const cuda::Stream& stream, int arch) {
  return std::make_unique<DeviceSums>(std::move(numbers), communicator, group, stream, arch);
}

}  // namespace rewire::runtime

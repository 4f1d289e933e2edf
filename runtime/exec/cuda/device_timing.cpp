#include "runtime/exec/cuda/device_timing.h"

#include <algorithm>
#include <cstring>

#include "ir/philox.h"
#include "ir/tensor.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {
namespace {

constexpr double kGraphSeconds = 2e-4;  // duration of one timing, which sets its number of runs
constexpr int kMostRuns = 20;
// Random numbers repeat after this many elements: a prime, so that no two rows of a matrix are the same.
constexpr std::int64_t kRandomElements = 65521;
constexpr std::int64_t kComparedBytes = std::int64_t{4} << 20;  // that are compared at a time

HostTensor random_numbers(ir::DType dtype, std::int64_t elements) {
  ir::Tensor tensor({dtype, {elements}});
  const ir::PhiloxStream stream{0, 0, ir::stream_hash("timed")};
  for (std::size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = 2 * stream.uniform(i) - 1;
  return to_host(tensor);
}

}  // namespace

void fill_at_random(const cuda::Stream& stream, cuda::Address to, std::int64_t bytes, ir::DType dtype,
                    std::string_view purpose) {
  if (bytes == 0) return;
  if (!ir::is_float(dtype)) {
    stream.fill(to, 0, bytes, purpose);
    return stream.synchronise(purpose);
  }
  const std::int64_t elements = bytes / static_cast<std::int64_t>(ir::dtype_bytes(dtype));
  const HostTensor numbers = random_numbers(dtype, std::min(elements, kRandomElements));
  std::int64_t done = numbers.type().bytes();
  stream.copy_in(to, numbers.bytes().data(), done, purpose);
  for (std::int64_t more = 0; done < bytes; done += more) {
    more = std::min(done, bytes - done);
    stream.copy(to + static_cast<cuda::Address>(done), to, more, purpose);
  }
  stream.synchronise(purpose);
}

GraphTimer::GraphTimer(const cuda::Stream& stream, std::string purpose, std::size_t works)
    : stream_(stream), purpose_(std::move(purpose)), replays_(works) {}

double GraphTimer::time(std::size_t number, const std::function<void()>& work) {
  Replay& replay = replays_[number];
  if (!replay.graph) {
    work();
    stream_.synchronise(purpose_);
    const double once = seconds(work);
    replay.runs = static_cast<int>(std::clamp(kGraphSeconds / std::max(once, 1e-9), 1.0, double{kMostRuns}));
    replay.graph = cuda::Graph(stream_, purpose_, [&] {
      for (int i = 0; i < replay.runs; ++i) work();
    });
  }
  return seconds([&] { replay.graph.launch(stream_, purpose_); }) / replay.runs;
}

bool GraphTimer::repeats(const std::function<void()>& work, std::span<const WrittenMemory> written) const {
  const auto run = [&] {
    for (const WrittenMemory& memory : written)
      stream_.fill(memory.address, kTimedByte, memory.bytes, purpose_);
    work();
  };
  std::vector<cuda::DeviceMemory> first;
  run();
  for (const WrittenMemory& memory : written) {
    first.emplace_back(memory.bytes, "comparing two runs");
    stream_.copy(first.back().address(), memory.address, memory.bytes, purpose_);
  }
  run();
  std::vector<std::byte> one(kComparedBytes), other(kComparedBytes);
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (std::int64_t at = 0; at < written[i].bytes; at += kComparedBytes) {
      const std::int64_t bytes = std::min(kComparedBytes, written[i].bytes - at);
      stream_.copy_out(one.data(), first[i].address() + static_cast<cuda::Address>(at), bytes, purpose_);
      stream_.copy_out(other.data(), written[i].address + static_cast<cuda::Address>(at), bytes, purpose_);
      stream_.synchronise(purpose_);
      if (std::memcmp(one.data(), other.data(), static_cast<std::size_t>(bytes)) != 0) return false;
    }
  }
  stream_.synchronise(purpose_);
  return true;
}

double GraphTimer::seconds(const std::function<void()>& work) const {
  start_.record(stream_);
  work();
  end_.record(stream_);
  stream_.synchronise(purpose_);
  return end_.seconds_since(start_);
}

}  // namespace rewire::runtime

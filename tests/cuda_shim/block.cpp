// The scheduler of a block: a thread runs until it waits; when none can run, all must have finished.
#include "tests/cuda_shim/block.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "ir/error.h"

namespace rewire::cuda_shim {
namespace {

using rewire_shim::kWarp;
using rewire_shim::Place;

constexpr std::size_t kGuard = 256;      // bytes behind shared memory
constexpr unsigned char kPoison = 0xFF;  // NaN in every float type

bool same(const Place& a, const Place& b) {
  return a.line == b.line && std::strcmp(a.what, b.what) == 0 && std::strcmp(a.function, b.function) == 0;
}

std::string describe(const Place& place) {
  return fmt::format("{} in {} ({}:{})", place.what, place.function, place.file, place.line);
}

/// "0-31, 40"
std::string ranges(const std::vector<std::size_t>& ascending) {
  std::string text;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t end = i + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ascending[i]);
    if (end - i > 1) text += fmt::format("-{}", ascending[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace

const rewire_shim::Runner BlockRunner::kRunner{&BlockRunner::barrier, &BlockRunner::exchange,
                                               &BlockRunner::copy, &BlockRunner::finish_copies,
                                               &BlockRunner::fail};

void BlockRunner::run(const KernelFunction& kernel, const Grid& grid, std::span<void* const> arguments,
                      std::int64_t index, Order order, std::uint64_t seed) {
  kernel_ = &kernel;
  arguments_ = arguments;
  prepare(grid, index, order, seed);
  schedule();
  check_shared(grid);
}

void BlockRunner::prepare(const Grid& grid, std::int64_t index, Order order, std::uint64_t seed) {
  if (grid.shared_bytes > shared_capacity_) {
    shared_ = std::make_unique<unsigned char[]>(static_cast<std::size_t>(grid.shared_bytes) + kGuard);
    shared_capacity_ = grid.shared_bytes;
  }
  std::memset(shared_.get(), kPoison, static_cast<std::size_t>(grid.shared_bytes) + kGuard);
  threads_ = static_cast<std::size_t>(grid.threads);
  stacks_.reserve(threads_);
  while (lanes_.size() < threads_) lanes_.push_back(std::make_unique<Lane>());
  queue_.clear();
  ready_.assign((threads_ + kWarp - 1) / kWarp, {});
  warps_.resize(ready_.size());
  std::iota(warps_.begin(), warps_.end(), std::size_t{0});
  ready_count_ = at_barrier_ = finished_ = 0;
  failure_.clear();
  order_ = order;
  random_.seed(seed);
  std::shuffle(warps_.begin(), warps_.end(), random_);
  for (std::size_t i = 0; i < threads_; ++i) {
    Lane& lane = *lanes_[i];
    lane.thread = {static_cast<unsigned>(i), 0, 0};
    lane.block = {static_cast<unsigned>(index % grid.blocks), static_cast<unsigned>(index / grid.blocks), 0};
    lane.threads = {static_cast<unsigned>(grid.threads), 1, 1};
    lane.blocks = {static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.members), 1};
    lane.shared = shared_.get();
    lane.runner = &kRunner;
    lane.owner = this;
    lane.copies.clear();
    lane.fiber.prepare(stacks_.top(i), &BlockRunner::start, &lane);
    make_ready(lane);
  }
}

void BlockRunner::start(void* lane) {
  const BlockRunner& block = *static_cast<Lane*>(lane)->owner;
  block.kernel_->run(block.arguments_.data());
}

void BlockRunner::schedule() {
  rewire_shim::Thread** const current = kernel_->current();
  while (ready_count_ > 0) {
    Lane& lane = next();
    *current = &lane;
    if (lane.fiber.resume()) {
      lane.state = State::finished;
      ++finished_;
    }
    if (!failure_.empty()) throw RuntimeFailure(failure_);
  }
  if (finished_ != threads_) throw RuntimeFailure(stuck());
}

BlockRunner::Lane& BlockRunner::next() {
  --ready_count_;
  if (order_ == Order::in_order) {
    const std::size_t index = queue_.front();
    queue_.pop_front();
    return *lanes_[index];
  }
  const auto waits = [&](std::size_t warp) { return !ready_[warp].empty(); };
  if (order_ == Order::any_thread)
    std::rotate(warps_.begin(), warps_.begin() + random_() % warps_.size(), warps_.end());
  std::vector<std::size_t>& lanes = ready_[*std::find_if(warps_.begin(), warps_.end(), waits)];
  std::swap(lanes[random_() % lanes.size()], lanes.back());
  const std::size_t index = lanes.back();
  lanes.pop_back();
  return *lanes_[index];
}

void BlockRunner::make_ready(Lane& lane) {
  lane.state = State::ready;
  ++ready_count_;
  const std::size_t index = lane.thread.x;
  if (order_ == Order::in_order) {
    queue_.push_back(index);
  } else {
    ready_[index / kWarp].push_back(index);
  }
}

void BlockRunner::barrier(rewire_shim::Thread* thread, Place place) {
  Lane& lane = *static_cast<Lane*>(thread);
  BlockRunner& block = *lane.owner;
  lane.state = State::at_barrier;
  lane.place = place;
  if (++block.at_barrier_ == block.threads_) block.release_barrier();
  lane.fiber.suspend();
}

void BlockRunner::copy(rewire_shim::Thread* thread, void* to, const void* from, unsigned bytes) {
  static_cast<Lane*>(thread)->copies.push_back({to, from, bytes});
}

void BlockRunner::finish_copies(rewire_shim::Thread* thread) {
  std::vector<Lane::Copy>& copies = static_cast<Lane*>(thread)->copies;
  for (const Lane::Copy& one : copies) std::memcpy(one.to, one.from, one.bytes);
  copies.clear();
}

void BlockRunner::release_barrier() {
  for (std::size_t i = 1; i < threads_; ++i) {
    if (!same(lanes_[i]->place, lanes_[0]->place)) return;  // nobody runs on: stuck() tells who waits where
  }
  at_barrier_ = 0;
  std::shuffle(warps_.begin(), warps_.end(), random_);
  for (std::size_t i = 0; i < threads_; ++i) make_ready(*lanes_[i]);
}

const std::uint64_t* BlockRunner::exchange(rewire_shim::Thread* thread, Place place, unsigned mask,
                                           std::uint64_t value) {
  Lane& lane = *static_cast<Lane*>(thread);
  BlockRunner& block = *lane.owner;
  if ((mask >> (thread->thread.x % kWarp) & 1U) == 0)
    fail(thread, place, "the thread is not in its own mask");
  lane.state = State::in_exchange;
  lane.place = place;
  lane.mask = mask;
  lane.given = value;
  if (!block.release_exchange(lane)) lane.fiber.suspend();
  return lane.received.data();
}

/// True if the last lane can run on at once.
bool BlockRunner::release_exchange(const Lane& last) {
  const std::size_t warp = last.thread.x / kWarp * kWarp;
  const std::size_t end = std::min(warp + kWarp, threads_);
  std::array<std::uint64_t, kWarp> values;
  values.fill(~std::uint64_t{0});
  for (std::size_t i = warp; i < end; ++i) {
    if ((last.mask >> (i - warp) & 1U) == 0) continue;
    const Lane& lane = *lanes_[i];
    if (lane.state != State::in_exchange || lane.mask != last.mask || !same(lane.place, last.place))
      return false;
    values[i - warp] = lane.given;
  }
  for (std::size_t i = warp; i < end; ++i) {
    if ((last.mask >> (i - warp) & 1U) == 0) continue;
    lanes_[i]->received = values;
    if (lanes_[i].get() == &last && order_ == Order::in_order) {
      lanes_[i]->state = State::ready;
    } else {
      make_ready(*lanes_[i]);
    }
  }
  return order_ == Order::in_order;
}

void BlockRunner::fail(rewire_shim::Thread* thread, Place place, const char* message) {
  Lane& lane = *static_cast<Lane*>(thread);
  BlockRunner& block = *lane.owner;
  block.failure_ = fmt::format("kernel '{}', block {}, thread {}: {}: {}", block.kernel_->name,
                               thread->block.x, thread->thread.x, describe(place), message);
  while (true) lane.fiber.suspend();  // never resumed
}

std::string BlockRunner::stuck() const {
  std::map<std::string, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < threads_; ++i) {
    const Lane& lane = *lanes_[i];
    std::string place = "finished";
    if (lane.state == State::at_barrier) place = "wait at " + describe(lane.place);
    if (lane.state == State::in_exchange)
      place = fmt::format("wait at {}, mask {:#010x}", describe(lane.place), lane.mask);
    places[place].push_back(i);
  }
  std::string text = fmt::format("kernel '{}', block {}: threads diverge", kernel_->name, lanes_[0]->block.x);
  for (const auto& [place, threads] : places) text += fmt::format("; {} {}", ranges(threads), place);
  return text;
}

void BlockRunner::check_shared(const Grid& grid) const {
  const unsigned char* guard = shared_.get() + grid.shared_bytes;
  const auto* touched =
      std::find_if(guard, guard + kGuard, [](unsigned char byte) { return byte != kPoison; });
  if (touched == guard + kGuard) return;
  throw RuntimeFailure(
      fmt::format("kernel '{}', block {}: wrote {} bytes behind its {} bytes of shared memory", kernel_->name,
                  lanes_[0]->block.x, touched - guard, grid.shared_bytes));
}

}  // namespace rewire::cuda_shim

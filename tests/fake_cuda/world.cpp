#include "tests/fake_cuda/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "ir/error.h"
#include "tests/fake_cuda/objects.h"
#include "tests/fake_cuda/stream.h"

namespace rewire::fake_cuda {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kGuard = 256;  // before and behind
constexpr std::byte kPoison{0xFF};   // NaN in every float type, for guards too: reading one shows

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Allocation::Allocation(Space where, std::size_t size)
    : space(where),
      bytes(size),
      memory_(static_cast<std::byte*>(::operator new(size + 2 * kGuard, std::align_val_t{kAlignment}))) {
  std::fill_n(memory_.get(), size + 2 * kGuard, kPoison);
}

void Allocation::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, std::align_val_t{kAlignment});
}

std::byte* Allocation::begin() const {
  return memory_.get() + kGuard;
}

bool Allocation::guards_hold() const {
  const auto intact = [](std::byte byte) { return byte == kPoison; };
  return std::all_of(memory_.get(), begin(), intact) && std::all_of(end(), end() + kGuard, intact);
}

World::World() {
  if (const char* seed = std::getenv("REWIRE_FAKE_CUDA_ORDER"); seed != nullptr)
    set_order(std::strtoull(seed, nullptr, 10));
}

World& World::get() {
  static World world;
  return world;
}

std::size_t World::used(Space space) const {
  std::size_t bytes = 0;
  for (const auto& [begin, allocation] : memory) bytes += allocation.space == space ? allocation.bytes : 0;
  return bytes;
}

const Allocation* World::owner(const void* address, std::size_t bytes) const {
  const auto* at = static_cast<const std::byte*>(address);
  const auto after = memory.upper_bound(at);
  if (after == memory.begin()) return nullptr;
  const Allocation& allocation = std::prev(after)->second;
  return at + bytes <= allocation.end() && at < allocation.end() ? &allocation : nullptr;
}

void World::require(Space space, const void* address, std::size_t bytes, const char* what) const {
  const Allocation* const found = owner(address, bytes);
  if (found == nullptr || found->space != space)
    throw RuntimeFailure(fmt::format("{}: {} bytes do not lie within one living allocation of {} memory",
                                     what, bytes, space == Space::device ? "device" : "pinned"));
}

void World::check_guards(const std::string& after) const {
  for (const auto& [address, allocation] : memory) {
    if (!allocation.guards_hold())
      throw RuntimeFailure(
          fmt::format("{}: wrote outside of an allocation of {} bytes", after, allocation.bytes));
  }
}

bool World::capturing() const {
  return std::any_of(streams.begin(), streams.end(), [](const auto& entry) {
    return entry.second->capture != nullptr && !entry.second->relaxed;
  });
}

void World::set_order(std::uint64_t seed) {
  seed_ = seed;
  random_.seed(seed);
  kernels.set_order(seed);
}

void World::push(Stream& stream, Item item) {
  stream.queue.push_back(std::move(item));
  // Seen from the host, some of it has already happened.
  for (std::uint64_t steps = seed_ == 0 ? 0 : random_() % 3; steps > 0; --steps) {
    if (Stream* const next = any()) run_head(*next);
  }
}

bool World::runnable(const Stream& stream) const {
  if (stream.queue.empty()) return false;
  const Item& head = stream.queue.front();
  return head.kind != Item::Kind::wait || head.event->completed >= head.version;
}

void World::run_head(Stream& stream) {
  const Item item = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (item.kind == Item::Kind::record) {
    item.event->completed = std::max(item.event->completed, item.version);
    item.event->seconds = seconds_now();
  }
  if (item.kind != Item::Kind::work) return;
  trace += fmt::format("stream {}: {}\n", stream.number, item.work.label);
  try {
    item.work.run();
    check_guards(item.work.label);
  } catch (const std::exception& error) {
    fault(error.what());
    break_context(kLaunchFailed);
    for (const auto& [handle, other] : streams) other->queue.clear();
    for (const auto& [handle, event] : events) event->completed = event->recorded;
  }
}

/// The stream whose head must run before the wanted one's can.
Stream* World::late(const Stream& wanted) {
  const Stream* at = &wanted;
  for (std::size_t hops = 0; hops <= streams.size(); ++hops) {
    if (runnable(*at)) return const_cast<Stream*>(at);
    if (at->queue.empty()) return nullptr;
    const std::shared_ptr<Event>& event = at->queue.front().event;
    const Stream* next = nullptr;
    for (const auto& [handle, stream] : streams) {
      for (const Item& item : stream->queue) {
        if (item.kind == Item::Kind::record && item.event == event) next = stream.get();
      }
    }
    if (next == nullptr) return nullptr;
    at = next;
  }
  return nullptr;
}

Stream* World::any() {
  std::vector<Stream*> ready;
  for (const auto& [handle, stream] : streams) {
    if (runnable(*stream)) ready.push_back(stream.get());
  }
  std::sort(ready.begin(), ready.end(),
            [](const Stream* a, const Stream* b) { return a->number < b->number; });
  return ready.empty() ? nullptr : ready[random_() % ready.size()];
}

int World::run_until(const Stream& stream, const std::function<bool()>& reached) {
  while (!reached()) {
    Stream* const next = seed_ == 0 ? late(stream) : any();
    if (next == nullptr) {
      fault("streams wait for each other");
      break_context(kLaunchFailed);
      break;
    }
    run_head(*next);
  }
  return broken();
}

int World::run_all() {
  while (Stream* const next = any()) run_head(*next);
  return broken();
}

std::string World::live() const {
  std::string text;
  for (const auto& [address, allocation] : memory)
    text += fmt::format("{} bytes of {} memory\n", allocation.bytes,
                        allocation.space == Space::device ? "device" : "pinned");
  for (const auto& [handle, stream] : streams) text += fmt::format("stream {}\n", stream->number);
  const auto add = [&](std::size_t count, const char* what) {
    if (count > 0) text += fmt::format("{} {}\n", count, what);
  };
  add(events.size(), "events");
  add(graphs.size(), "graphs");
  add(executables.size(), "executable graphs");
  add(modules.size(), "modules");
  return text + live_objects();
}

int enqueue(void* handle, std::string label, std::function<void()> run) {
  World& world = World::get();
  const std::lock_guard lock(world.mutex);
  const auto found = world.streams.find(handle);
  if (found == world.streams.end()) {
    fault(label + ": no such stream");
    return kInvalidHandle;
  }
  Stream& stream = *found->second;
  if (stream.capture != nullptr) {
    stream.capture->nodes.push_back({std::move(label), std::move(run)});
    return kSuccess;
  }
  world.push(stream, {Item::Kind::work, {std::move(label), std::move(run)}, nullptr, 0});
  return kSuccess;
}

std::size_t device_bytes_at(const void* address) {
  World& world = World::get();
  const std::lock_guard lock(world.mutex);
  const Allocation* const found = world.owner(address, 1);
  if (found == nullptr || found->space != Space::device) return 0;
  return static_cast<std::size_t>(found->end() - static_cast<const std::byte*>(address));
}

}  // namespace rewire::fake_cuda

// All that the fake device holds: memory, streams with work that has not run yet, events, graphs, modules.
// Every function of the ABI takes the world's lock, and work runs on the thread that waits for it, so a
// program's runs are the same each time.
//
// Work runs as late as what a caller waits for allows, or in an order drawn from a seed: whoever forgets to
// wait reads NaN or what was there before.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "tests/fake_cuda/kernels.h"

namespace rewire::fake_cuda {

/// The driver's errors that the fake answers by itself.
enum Status : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnmatched = 903,
};

enum class Space : std::uint8_t { device, pinned };

/// Memory between guard bytes, NaN until it is written.
class Allocation {
 public:
  Allocation(Space space, std::size_t bytes);
  std::byte* begin() const;
  std::byte* end() const { return begin() + bytes; }
  bool guards_hold() const;

  Space space;
  std::size_t bytes;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;  // from the guard on
};

struct Work {
  std::string label;
  std::function<void()> run;
};

struct Event {
  std::uint64_t recorded = 0, completed = 0;  // records asked for, and come to
  double seconds = 0;                         // of the last that was come to
  bool timed = true;
};

/// Work, the record of an event, or a wait for one.
struct Item {
  enum class Kind : std::uint8_t { work, record, wait } kind = Kind::work;
  Work work;
  std::shared_ptr<Event> event;
  std::uint64_t version = 0;
};

struct Graph {
  std::vector<Work> nodes;
  bool invalid = false;
};

struct Stream {
  int number = 0;
  std::deque<Item> queue;
  std::shared_ptr<Graph> capture;  // while it is captured
  bool relaxed = false;            // the mode of the capture
};

class World {
 public:
  World();
  static World& get();

  std::recursive_mutex mutex;
  bool initialized = false;
  int context_uses = 0, streams_made = 0;
  int device = 0;                                 // its own number, of the context
  std::map<const std::byte*, Allocation> memory;  // by the address given out
  std::map<const void*, std::shared_ptr<Stream>> streams;
  std::map<const void*, std::shared_ptr<Event>> events;
  std::map<const void*, std::shared_ptr<Graph>> graphs, executables;
  std::map<const void*, std::shared_ptr<Module>> modules;
  KernelRunner kernels;
  std::string trace;
  bool in_host_function = false;

  /// The allocation that holds all of these bytes; null if none does.
  const Allocation* owner(const void* address, std::size_t bytes) const;
  /// RuntimeFailure where they do not lie within one allocation of the space.
  void require(Space space, const void* address, std::size_t bytes, const char* what) const;
  void check_guards(const std::string& after) const;
  /// The bytes that are allocated.
  std::size_t used(Space space) const;

  bool capturing() const;  // on any stream, not relaxed
  void push(Stream& stream, Item item);
  /// Runs what must run, in some order, until the condition holds.
  int run_until(const Stream& stream, const std::function<bool()>& reached);
  int run_all();
  std::string live() const;
  void set_order(std::uint64_t seed);

 private:
  bool runnable(const Stream& stream) const;
  void run_head(Stream& stream);
  Stream* late(const Stream& wanted);
  Stream* any();

  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
};

double seconds_now();

}  // namespace rewire::fake_cuda

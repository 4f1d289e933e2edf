// A GPU and its resources, each an object that releases what it holds: the primary context, memory, streams,
// events, modules and graphs. Every failing call throws RuntimeFailure with the call's name, the driver's
// words and the purpose of the call; a failing release is logged. Objects are used and destroyed while their
// Context lives, on a thread that has entered it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/device/cuda/driver.h"

namespace rewire::runtime::cuda {

struct DeviceFacts {
  std::string name, uuid;  // "GPU-…" as nvidia-smi spells it
  int arch = 0;            // the compute capability times ten
  int multiprocessors = 0;
  std::int64_t shared_bytes_per_block = 0;  // the most that a kernel may opt in to
  std::int64_t memory_bytes = 0;
};

/// Describes a device: "NVIDIA H100 80GB HBM3, sm_90".
std::string describe(const DeviceFacts& facts);

/// Returns how many devices the driver lets this process see: $CUDA_VISIBLE_DEVICES may hide some.
int device_count();
/// Returns, in one line, why there may be no device.
std::string no_device();
/// Returns the device that `name` names: its number among those that this process sees, or its UUID or the beginning of
/// it ("GPU-5a1b"). Throws UserError if there is none, or more than one.
int device_named(std::string_view name);
/// Returns the device that this process computes on: 0, or what set_own_device() was given.
int own_device();
/// For one of several processes of a host. Called before anything uses a device.
void set_own_device(int ordinal);
/// Returns the facts of a device. Throws UserError if there is none of this number.
DeviceFacts device_facts(int ordinal);

/// The device's primary context, current on the thread that makes it and on each that calls enter().
class Context {
 public:
  explicit Context(int ordinal = own_device());
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void enter() const;
  const DeviceFacts& facts() const { return facts_; }

 private:
  DeviceFacts facts_;
  int device_ = 0;
  void* handle_ = nullptr;
};

/// A handle of the driver and the function that releases it.
class Owned {
 public:
  using Release = DriverCall<int(void*)>;

  Owned() = default;
  Owned(void* handle, const Release& release, const char* what)
      : handle_(handle), release_(&release), what_(what) {}
  ~Owned();
  Owned(Owned&& other) noexcept;
  Owned& operator=(Owned&& other) noexcept;

  void* get() const { return handle_; }

 private:
  void* handle_ = nullptr;
  const Release* release_ = nullptr;
  const char* what_ = "";
};

/// Returns the most bytes that this process held at once in DeviceMemory, over all devices.
std::int64_t device_memory_peak();
/// Restarts device_memory_peak() from the bytes held now.
void forget_device_memory_peak();

class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Allocates `bytes`; none for 0. `what` is for messages: "the arena of program 'step'". Throws OutOfMemory, which says
  /// what is free and which key makes it smaller.
  DeviceMemory(std::int64_t bytes, std::string_view what);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  Address address() const { return address_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  Address address_ = 0;
  std::int64_t bytes_ = 0;
};

/// Pinned host memory, which the device copies from and to by itself.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(std::int64_t bytes, std::string_view what);

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(memory_.get()), size_}; }

 private:
  Owned memory_;
  std::size_t size_ = 0;
};

class Event;

/// A queue of work in order. It does not wait for the legacy stream.
class Stream {
 public:
  Stream();

  void* handle() const { return handle_.get(); }
  void synchronise(std::string_view purpose) const;
  /// Makes work that is enqueued from here on run after the event's last record.
  void wait_for(const Event& event) const;

  // `what` names the data that is copied: "of the inputs of 'step'".
  void copy_in(Address to, const void* from, std::int64_t bytes, std::string_view what) const;
  void copy_out(void* to, Address from, std::int64_t bytes, std::string_view what) const;
  void copy(Address to, Address from, std::int64_t bytes, std::string_view what) const;
  void fill(Address to, unsigned char value, std::int64_t bytes, std::string_view what) const;
  /// Calls `function(data)` on the host, in the stream's order; it must not call the driver.
  void call(void (*function)(void*), void* data, std::string_view what) const;

 private:
  Owned handle_;
};

class Event {
 public:
  /// `timed` allows seconds_since(); such events are slower to record.
  Event() : Event(false) {}
  explicit Event(bool timed);

  void* handle() const { return handle_.get(); }
  void record(const Stream& stream) const;
  /// Waits for the last record; returns at once if there was none.
  void synchronise(std::string_view purpose) const;
  bool happened() const;
  /// Returns the seconds between two records, both of which have happened.
  double seconds_since(const Event& start) const;

 private:
  Owned handle_;
};

/// Machine code on the device.
class Module {
 public:
  Module(const std::string& cubin, std::string_view what);
  /// Returns a kernel; `shared_bytes` is the dynamic shared memory of its launches.
  void* function(const std::string& symbol, std::int64_t shared_bytes) const;

 private:
  Owned handle_;
};

/// Returns the registers per thread of the function, as the device reports them.
int registers_of(void* function, std::string_view name);

/// A grid of blocks in one dimension, times the members of a table (blockIdx.y). Every parameter is an
/// address.
struct KernelGrid {
  std::int64_t blocks = 1;
  int threads = 32;
  std::int64_t shared_bytes = 0;
  std::int64_t members = 1;
};
void launch(void* function, const KernelGrid& grid, std::span<const Address> arguments, const Stream& stream,
            std::string_view what);

/// Work that was enqueued once and is launched as one.
class Graph {
 public:
  Graph() = default;
  /// Records the work that `enqueue` puts on the stream; none of it runs now. If it throws, the capture
  /// ends.
  Graph(const Stream& stream, std::string_view what, const std::function<void()>& enqueue);

  explicit operator bool() const { return executable_.get() != nullptr; }
  void launch(const Stream& stream, std::string_view what) const;

 private:
  Owned executable_;
};

}  // namespace rewire::runtime::cuda

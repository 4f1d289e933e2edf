#include "runtime/device/cuda/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <utility>
#include <vector>

#include "ir/error.h"

namespace rewire::runtime::cuda {
namespace {

int chosen_device = 0;

std::atomic<std::int64_t> held_bytes = 0, peak_bytes = 0;  // of DeviceMemory

// Values of the driver's enumerations.
constexpr int kMultiprocessors = 16, kCapabilityMajor = 75, kCapabilityMinor = 76, kSharedOptIn = 97;
constexpr int kRegisters = 4, kDynamicSharedBytes = 8;
constexpr unsigned kNonBlocking = 1, kWithoutTiming = 2;
constexpr int kThreadLocalCapture = 1;
constexpr int kNotReady = 600;
constexpr std::int64_t kSharedWithoutAsking = 48 << 10;

int attribute(int device, int number, const char* what) {
  int value = 0;
  driver().device_attribute(fmt::format("for the {} of device {}", what, device), &value, number, device);
  return value;
}

std::string uuid_of(int device) {
  std::array<char, 16> bytes{};
  driver().device_uuid("", bytes.data(), device);
  std::string text = "GPU";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  }
  return text;
}

std::string size_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.3g} GB", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.3g} MB", value / 1e6);
  return value >= 1e3 ? fmt::format("{:.3g} kB", value / 1e3) : fmt::format("{} bytes", bytes);
}

std::size_t size_of(std::int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}

/// Says what an allocation needs, what is free, and what makes it smaller.
std::string shortage(std::int64_t bytes, std::string_view what) {
  std::string text = fmt::format("out of device memory: {} are needed for {}", size_text(bytes), what);
  std::size_t free = 0, total = 0;
  if (driver().memory_info.status(&free, &total) == 0)
    text += fmt::format(", {} of {} are free, and this process holds {}",
                        size_text(static_cast<std::int64_t>(free)),
                        size_text(static_cast<std::int64_t>(total)), size_text(held_bytes));
  const auto is_for = [&](std::string_view word) { return what.find(word) != std::string_view::npos; };
  text += is_for("weights") ? "; use a smaller model, or train.zero=1 with several processes"
          : is_for("'eval") ? "; set eval.batch smaller"
                            : "; set train.batch smaller (with train.accumulate=2 for the same step), or "
                              "train.recompute=block";
  return text + ", end other programs on the device, or take another (rewire doctor lists them)";
}

}  // namespace

std::string describe(const DeviceFacts& facts) {
  return fmt::format("{}, sm_{}", facts.name, facts.arch);
}

std::string no_device() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return "the NVIDIA driver finds no GPU; nvidia-smi -L lists what it has";
  return fmt::format("CUDA_VISIBLE_DEVICES is '{}', which leaves no GPU; unset it to see all", visible);
}

int device_named(std::string_view name) {
  const int count = device_count();
  std::vector<std::string> all;
  std::vector<int> found;
  int number = -1;
  const bool is_number =
      std::from_chars(name.data(), name.data() + name.size(), number).ptr == name.data() + name.size();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const std::string uuid = device_facts(ordinal).uuid;
    all.push_back(fmt::format("{} ({})", ordinal, uuid));
    if (is_number ? ordinal == number : uuid.starts_with(name)) found.push_back(ordinal);
  }
  if (count == 0) user_error("{}", no_device());
  if (found.empty()) user_error("there is no device '{}'; choose from {}", name, fmt::join(all, ", "));
  if (found.size() > 1)
    user_error("'{}' begins the UUIDs of {} devices; give more of it: {}", name, found.size(),
               fmt::join(all, ", "));
  return found.front();
}

int own_device() {
  return chosen_device;
}

void set_own_device(int ordinal) {
  chosen_device = ordinal;
}

int device_count() {
  int count = 0;
  driver().device_count("", &count);
  return count;
}

DeviceFacts device_facts(int ordinal) {
  if (const int count = device_count(); ordinal >= count)
    user_error("there is no CUDA device {}: the driver has {}", ordinal, count);
  int device = 0;
  driver().device(fmt::format("{}", ordinal), &device, ordinal);
  DeviceFacts facts;
  std::array<char, 256> name{};
  driver().device_name("", name.data(), static_cast<int>(name.size()) - 1, device);
  facts.name = name.data();
  facts.uuid = uuid_of(device);
  facts.arch = 10 * attribute(device, kCapabilityMajor, "compute capability") +
               attribute(device, kCapabilityMinor, "compute capability");
  facts.multiprocessors = attribute(device, kMultiprocessors, "multiprocessors");
  facts.shared_bytes_per_block = attribute(device, kSharedOptIn, "shared memory");
  std::size_t memory = 0;
  driver().device_memory("", &memory, device);
  facts.memory_bytes = static_cast<std::int64_t>(memory);
  return facts;
}

Context::Context(int ordinal) : facts_(device_facts(ordinal)) {
  driver().device(fmt::format("{}", ordinal), &device_, ordinal);
  driver().retain_context(fmt::format("of {}", facts_.name), &handle_, device_);
  try {
    enter();
  } catch (...) {
    driver().release_context.release(facts_.name, device_);
    throw;
  }
}

Context::~Context() {
  driver().release_context.release(facts_.name, device_);
}

void Context::enter() const {
  driver().set_context("", handle_);
}

Owned::~Owned() {
  if (handle_ != nullptr) release_->release(what_, handle_);
}

Owned::Owned(Owned&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), release_(other.release_), what_(other.what_) {}

Owned& Owned::operator=(Owned&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(release_, other.release_);
  std::swap(what_, other.what_);
  return *this;
}

std::int64_t device_memory_peak() {
  return peak_bytes;
}

void forget_device_memory_peak() {
  peak_bytes = held_bytes.load();
}

DeviceMemory::DeviceMemory(std::int64_t bytes, std::string_view what) : bytes_(bytes) {
  if (bytes <= 0) return;
  if (const int status = driver().allocate.status(&address_, size_of(bytes)); status == kOutOfMemory)
    throw OutOfMemory(shortage(bytes, what));
  else if (status != 0)
    driver_failure("cuMemAlloc", status, fmt::format("of {} for {}", size_text(bytes), what));
  const std::int64_t held = held_bytes += bytes;
  for (std::int64_t peak = peak_bytes; held > peak && !peak_bytes.compare_exchange_weak(peak, held);) {
  }
}

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  driver().free.release("", address_);
  held_bytes -= bytes_;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : address_(std::exchange(other.address_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedMemory::PinnedMemory(std::int64_t bytes, std::string_view what) : size_(size_of(bytes)) {
  if (bytes == 0) return;
  void* memory = nullptr;
  driver().allocate_pinned(fmt::format("of {} for {}", size_text(bytes), what), &memory, size_, 0);
  memory_ = Owned(memory, driver().free_pinned, "");
}

Stream::Stream() {
  void* handle = nullptr;
  driver().create_stream("", &handle, kNonBlocking);
  handle_ = Owned(handle, driver().destroy_stream, "");
}

void Stream::synchronise(std::string_view purpose) const {
  driver().synchronise(purpose, handle());
}

void Stream::wait_for(const Event& event) const {
  driver().wait_for_event("", handle(), event.handle(), 0);
}

void Stream::copy_in(Address to, const void* from, std::int64_t bytes, std::string_view what) const {
  if (bytes > 0) driver().copy_in(what, to, from, size_of(bytes), handle());
}

void Stream::copy_out(void* to, Address from, std::int64_t bytes, std::string_view what) const {
  if (bytes > 0) driver().copy_out(what, to, from, size_of(bytes), handle());
}

void Stream::copy(Address to, Address from, std::int64_t bytes, std::string_view what) const {
  if (bytes > 0) driver().copy(what, to, from, size_of(bytes), handle());
}

void Stream::fill(Address to, unsigned char value, std::int64_t bytes, std::string_view what) const {
  if (bytes > 0) driver().fill(what, to, value, size_of(bytes), handle());
}

void Stream::call(void (*function)(void*), void* data, std::string_view what) const {
  driver().launch_host(what, handle(), function, data);
}

Event::Event(bool timed) {
  void* handle = nullptr;
  driver().create_event("", &handle, timed ? 0 : kWithoutTiming);
  handle_ = Owned(handle, driver().destroy_event, "");
}

void Event::record(const Stream& stream) const {
  driver().record_event("", handle(), stream.handle());
}

void Event::synchronise(std::string_view purpose) const {
  driver().synchronise_event(purpose, handle());
}

bool Event::happened() const {
  const int status = driver().query_event.status(handle());
  if (status != 0 && status != kNotReady) driver_failure("cuEventQuery", status, "");
  return status == 0;
}

double Event::seconds_since(const Event& start) const {
  float milliseconds = 0;
  driver().event_time("", &milliseconds, start.handle(), handle());
  return static_cast<double>(milliseconds) * 1e-3;
}

Module::Module(const std::string& cubin, std::string_view what) {
  void* handle = nullptr;
  driver().load_module(what, &handle, cubin.data());
  handle_ = Owned(handle, driver().unload_module, "");
}

void* Module::function(const std::string& symbol, std::int64_t shared_bytes) const {
  void* function = nullptr;
  driver().function(fmt::format("'{}'", symbol), &function, handle_.get(), symbol.c_str());
  if (shared_bytes > kSharedWithoutAsking)
    driver().set_attribute(fmt::format("for {} of shared memory of '{}'", size_text(shared_bytes), symbol),
                           function, kDynamicSharedBytes, static_cast<int>(shared_bytes));
  return function;
}

int registers_of(void* function, std::string_view name) {
  int registers = 0;
  driver().attribute(fmt::format("for the registers of '{}'", name), &registers, kRegisters, function);
  return registers;
}

void launch(void* function, const KernelGrid& grid, std::span<const Address> arguments, const Stream& stream,
            std::string_view what) {
  std::vector<void*> parameters;
  for (const Address& argument : arguments) parameters.push_back(const_cast<Address*>(&argument));
  driver().launch(what, function, static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.members), 1,
                  static_cast<unsigned>(grid.threads), 1, 1, static_cast<unsigned>(grid.shared_bytes),
                  stream.handle(), parameters.data(), nullptr);
}

Graph::Graph(const Stream& stream, std::string_view what, const std::function<void()>& enqueue) {
  driver().begin_capture(what, stream.handle(), kThreadLocalCapture);
  void* handle = nullptr;
  try {
    enqueue();
  } catch (...) {
    driver().end_capture.status(stream.handle(), &handle);  // an error was thrown already
    if (handle != nullptr) driver().destroy_graph.release(what, handle);
    throw;
  }
  driver().end_capture(what, stream.handle(), &handle);
  const Owned graph(handle, driver().destroy_graph, "");
  void* executable = nullptr;
  driver().instantiate(what, &executable, handle, 0);
  executable_ = Owned(executable, driver().destroy_executable, "");
}

void Graph::launch(const Stream& stream, std::string_view what) const {
  driver().launch_graph(what, executable_.get(), stream.handle());
}

}  // namespace rewire::runtime::cuda

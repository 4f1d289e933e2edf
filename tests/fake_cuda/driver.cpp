// The ABI of libcuda: devices, the primary context, memory, modules, kernels, streams and events.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "ir/error.h"
#include "tests/fake_cuda/abi.h"
#include "tests/fake_cuda/machine.h"

namespace rewire::fake_cuda {
namespace {

int context_object = 1;  // what the context's handle points at

thread_local const void* current_context = nullptr;

struct ErrorName {
  int code;
  const char *name, *text;
};
constexpr ErrorName kErrors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "forward compatibility was attempted on non supported HW"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture was not initiated in this stream"},
};

int describe(int code, const char** text, const char* ErrorName::* field) {
  for (const ErrorName& error : kErrors) {
    if (error.code != code) continue;
    *text = error.*field;
    return kSuccess;
  }
  *text = nullptr;
  return kInvalidValue;
}

/// The device of a handle, which is its place among those that are visible; null if there is none.
const FakeDevice* device_of(int handle) {
  const std::vector<int> visible = visible_devices();
  if (handle < 0 || handle >= static_cast<int>(visible.size())) return nullptr;
  return &machine().devices[static_cast<std::size_t>(visible[static_cast<std::size_t>(handle)])];
}

/// The device that the process computes on.
const FakeDevice& used_device() {
  return machine().devices.at(static_cast<std::size_t>(World::get().device));
}

int allocate(const Call& call, Space space, std::size_t bytes, std::byte** address) {
  if (bytes == 0) return kInvalidValue;
  if (call.world.used(space) + bytes > used_device().free) return kOutOfMemory;
  Allocation allocation(space, bytes);
  *address = allocation.begin();
  call.world.memory.emplace(*address, std::move(allocation));
  return kSuccess;
}

/// What is under way may still use it: the driver waits.
int release(const Call& call, Space space, const std::byte* address) {
  call.world.run_all();
  const auto found = call.world.memory.find(address);
  if (found == call.world.memory.end() || found->second.space != space)
    return call.refuse(kInvalidValue, "no allocation begins at this address");
  call.world.memory.erase(found);
  return call.status;
}

/// A copy as work of a stream. What is not pinned is read at once, as the driver does.
int copy(const Call& call, const char* what, void* to, Space to_space, const void* from, Space from_space,
         std::size_t bytes, void* stream) {
  if (call.status != kSuccess) return call.status;
  const auto plain = [&](Space space, const void* address) {
    return space == Space::pinned && call.world.owner(address, 1) == nullptr;
  };
  const std::string label = fmt::format("{} {}", what, bytes);
  if (plain(from_space, from)) {
    std::vector<std::byte> bytes_now(static_cast<const std::byte*>(from),
                                     static_cast<const std::byte*>(from) + bytes);
    return enqueue(stream, label, [=, taken = std::move(bytes_now)] {
      World::get().require(to_space, to, bytes, what);
      std::memcpy(to, taken.data(), bytes);
    });
  }
  const bool waits = plain(to_space, to);
  const int status = enqueue(stream, label, [=] {
    World::get().require(from_space, from, bytes, what);
    if (!waits) World::get().require(to_space, to, bytes, what);
    std::memmove(to, from, bytes);
  });
  if (status != kSuccess || !waits) return status;
  const Stream& target = *call.world.streams.at(stream);
  if (target.capture != nullptr)
    return call.refuse(kCaptureUnsupported, "a captured copy to memory that is not pinned");
  return call.world.run_until(target, [&] { return target.queue.empty(); });
}

}  // namespace

ContextCall::ContextCall(const char* call, bool unsafe) : Call(call, unsafe) {
  if (status == kSuccess && (current_context == nullptr || world.context_uses == 0))
    status = refuse(kInvalidContext, "the thread has no context");
}

REWIRE_FAKE_API int cuInit(unsigned) {
  World& world = World::get();
  const std::lock_guard lock(world.mutex);
  int status = enter("cuInit");
  if (status == kSuccess && visible_devices().empty()) status = kNoDevice;
  world.initialized = world.initialized || status == kSuccess;
  return status;
}
REWIRE_FAKE_API int cuDriverGetVersion(int* version) {
  *version = machine().driver;
  return kSuccess;
}
REWIRE_FAKE_API int cuGetErrorName(int code, const char** text) {
  return describe(code, text, &ErrorName::name);
}
REWIRE_FAKE_API int cuGetErrorString(int code, const char** text) {
  return describe(code, text, &ErrorName::text);
}

REWIRE_FAKE_API int cuDeviceGetCount(int* count) {
  const Call call("cuDeviceGetCount");
  *count = static_cast<int>(visible_devices().size());
  return call.status;
}
REWIRE_FAKE_API int cuDeviceGet(int* device, int ordinal) {
  const Call call("cuDeviceGet");
  *device = ordinal;
  return call.status != kSuccess || device_of(ordinal) != nullptr ? call.status
                                                                  : static_cast<int>(kInvalidDevice);
}
REWIRE_FAKE_API int cuDeviceGetName(char* name, int size, int device) {
  const Call call("cuDeviceGetName");
  fmt::format_to_n(name, size, "{}{}", device_of(device)->name, '\0');
  return call.status;
}
REWIRE_FAKE_API int cuDeviceGetUuid_v2(char* uuid, int device) {
  const Call call("cuDeviceGetUuid_v2");
  std::memcpy(uuid, uuid_bytes(visible_devices().at(static_cast<std::size_t>(device))).data(), 16);
  return call.status;
}
REWIRE_FAKE_API int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  const Call call("cuDeviceTotalMem_v2");
  *bytes = device_of(device)->memory;
  return call.status;
}
REWIRE_FAKE_API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const Call call("cuDeviceGetAttribute");
  const FakeDevice& fake = *device_of(device);
  const std::array<std::array<int, 2>, 4> attributes = {
      {{16, fake.multiprocessors}, {75, fake.arch / 10}, {76, fake.arch % 10}, {97, fake.shared_bytes}}};
  for (const auto& [number, answer] : attributes) {
    if (number != attribute) continue;
    *value = answer;
    return call.status;
  }
  return call.refuse(kInvalidValue, fmt::format("attribute {} is not known to the fake", attribute));
}

REWIRE_FAKE_API int cuDevicePrimaryCtxRetain(void** context, int device) {
  const Call call("cuDevicePrimaryCtxRetain");
  if (call.status != kSuccess) return call.status;
  const int number = visible_devices().at(static_cast<std::size_t>(device));
  if (call.world.context_uses > 0 && call.world.device != number)
    return call.refuse(kNotSupported, "the fake computes on one device of a process");
  call.world.device = number;
  ++call.world.context_uses;
  *context = &context_object;
  return kSuccess;
}
REWIRE_FAKE_API int cuDevicePrimaryCtxRelease_v2(int) {
  const Call call("cuDevicePrimaryCtxRelease_v2");
  if (call.world.context_uses == 0) return call.refuse(kInvalidContext, "released more often than retained");
  if (--call.world.context_uses == 0) {
    call.world.run_all();
    if (const std::string live = call.world.live(); !live.empty())
      call.refuse(kSuccess, "still there: " + live);
  }
  return call.status;
}
REWIRE_FAKE_API int cuCtxSetCurrent(void* context) {
  const Call call("cuCtxSetCurrent");
  if (call.status == kSuccess) current_context = context;
  return call.status;
}

REWIRE_FAKE_API int cuMemAlloc_v2(Address* address, std::size_t bytes) {
  const ContextCall call("cuMemAlloc_v2", true);
  std::byte* memory = nullptr;
  const int status = call.status == kSuccess ? allocate(call, Space::device, bytes, &memory) : call.status;
  *address = reinterpret_cast<std::uintptr_t>(memory);
  return status;
}
REWIRE_FAKE_API int cuMemFree_v2(Address address) {
  const ContextCall call("cuMemFree_v2", true);
  return release(call, Space::device, to_pointer(address));
}
REWIRE_FAKE_API int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  const ContextCall call("cuMemGetInfo_v2");
  *total = used_device().memory;
  *free = used_device().free - call.world.used(Space::device);
  return call.status;
}
REWIRE_FAKE_API int cuMemHostAlloc(void** address, std::size_t bytes, unsigned) {
  const ContextCall call("cuMemHostAlloc", true);
  std::byte* memory = nullptr;
  const int status = call.status == kSuccess ? allocate(call, Space::pinned, bytes, &memory) : call.status;
  *address = memory;
  return status;
}
REWIRE_FAKE_API int cuMemFreeHost(void* address) {
  const ContextCall call("cuMemFreeHost", true);
  return release(call, Space::pinned, static_cast<const std::byte*>(address));
}
REWIRE_FAKE_API int cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, void* stream) {
  const ContextCall call("cuMemcpyHtoDAsync_v2");
  return copy(call, "copy to the device", to_pointer(to), Space::device, from, Space::pinned, bytes, stream);
}
REWIRE_FAKE_API int cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, void* stream) {
  const ContextCall call("cuMemcpyDtoHAsync_v2");
  return copy(call, "copy to the host", to, Space::pinned, to_pointer(from), Space::device, bytes, stream);
}
REWIRE_FAKE_API int cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, void* stream) {
  const ContextCall call("cuMemcpyDtoDAsync_v2");
  return copy(call, "copy", to_pointer(to), Space::device, to_pointer(from), Space::device, bytes, stream);
}
REWIRE_FAKE_API int cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes, void* stream) {
  const ContextCall call("cuMemsetD8Async");
  if (call.status != kSuccess) return call.status;
  return enqueue(stream, fmt::format("set {}", bytes), [=] {
    World::get().require(Space::device, to_pointer(to), bytes, "set");
    std::memset(to_pointer(to), value, bytes);
  });
}

REWIRE_FAKE_API int cuModuleLoadData(void** handle, const void* image) {
  const ContextCall call("cuModuleLoadData", true);
  if (call.status != kSuccess) return call.status;
  std::shared_ptr<Module> module = parse_module(from_image(image));
  if (module == nullptr) return call.refuse(kInvalidImage, "the image is none of the fake NVRTC's");
  call.world.kernels.add(*module);
  *handle = add(call.world.modules, std::move(module));
  return kSuccess;
}
REWIRE_FAKE_API int cuModuleUnload(void* handle) {
  const ContextCall call("cuModuleUnload", true);
  call.world.run_all();
  if (call.world.modules.erase(handle) == 0)
    return call.refuse(kInvalidHandle, "no such module, or it was unloaded");
  return call.status;
}
REWIRE_FAKE_API int cuModuleGetFunction(void** function, void* handle, const char* symbol) {
  const ContextCall call("cuModuleGetFunction");
  if (call.status != kSuccess) return call.status;
  const auto module = find(call, call.world.modules, handle, "module");
  if (module == nullptr) return kInvalidHandle;
  for (const auto& kernel : module->kernels) {
    if (kernel->symbol != symbol) continue;
    *function = kernel.get();
    return kSuccess;
  }
  return kNotFound;
}
REWIRE_FAKE_API int cuFuncSetAttribute(void* function, int attribute, int value) {
  const ContextCall call("cuFuncSetAttribute");
  if (call.status != kSuccess) return call.status;
  if (attribute != 8 || value > used_device().shared_bytes) return kInvalidValue;
  static_cast<Kernel*>(function)->shared_limit = value;
  return kSuccess;
}

REWIRE_FAKE_API int cuFuncGetAttribute(int* value, int attribute, void*) {
  const ContextCall call("cuFuncGetAttribute");
  if (call.status != kSuccess) return call.status;
  if (attribute != 4) return kInvalidValue;
  *value = 40;  // registers: no fiber has any
  return kSuccess;
}

REWIRE_FAKE_API int cuLaunchKernel(void* function, unsigned blocks, unsigned blocks_y, unsigned blocks_z,
                                   unsigned threads, unsigned threads_y, unsigned threads_z, unsigned shared,
                                   void* stream, void** parameters, void** extra) {
  const ContextCall call("cuLaunchKernel");
  if (call.status != kSuccess) return call.status;
  std::shared_ptr<Module> module;
  for (const auto& [handle, candidate] : call.world.modules) {
    for (const auto& kernel : candidate->kernels) {
      if (kernel.get() == function) module = candidate;
    }
  }
  if (module == nullptr) return call.refuse(kInvalidHandle, "the function is of no module that is loaded");
  const Kernel& kernel = *static_cast<const Kernel*>(function);
  if (blocks_z * threads_y * threads_z != 1 || extra != nullptr)
    return call.refuse(kNotSupported, "the fake runs blocks in x and y, threads in x, with plain parameters");
  if (blocks == 0 || blocks_y == 0 || blocks_y > 65535 || threads == 0 || threads > 1024 ||
      static_cast<int>(shared) > kernel.shared_limit)
    return call.refuse(
        kInvalidValue,
        fmt::format("'{}': no device launches {} x {} blocks of {} threads with {} bytes, {} allowed",
                    kernel.symbol, blocks, blocks_y, threads, shared, kernel.shared_limit));
  std::vector<void*> arguments;
  for (std::size_t i = 0; i < kernel.parameters; ++i)
    arguments.push_back(to_pointer(*static_cast<const Address*>(parameters[i])));
  const cuda_shim::Grid grid{blocks, static_cast<int>(threads), static_cast<std::int64_t>(shared), blocks_y};
  return enqueue(stream, kernel.symbol, [module, &kernel, grid, arguments] {
    for (void* argument : arguments) World::get().require(Space::device, argument, 1, kernel.symbol.c_str());
    World::get().kernels.launch(kernel, grid, arguments);
  });
}

REWIRE_FAKE_API int cuStreamCreate(void** handle, unsigned) {
  const ContextCall call("cuStreamCreate");
  if (call.status != kSuccess) return call.status;
  auto stream = std::make_shared<Stream>();
  stream->number = ++call.world.streams_made;
  *handle = add(call.world.streams, std::move(stream));
  return kSuccess;
}
REWIRE_FAKE_API int cuStreamDestroy_v2(void* handle) {
  const ContextCall call("cuStreamDestroy_v2");
  call.world.run_all();
  if (call.world.streams.erase(handle) == 0)
    return call.refuse(kInvalidHandle, "no such stream, or it was destroyed");
  return call.status;
}
REWIRE_FAKE_API int cuStreamSynchronize(void* handle) {
  const ContextCall call("cuStreamSynchronize");
  if (call.status != kSuccess) return call.status;
  const auto stream = find(call, call.world.streams, handle, "stream");
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return call.refuse(kCaptureUnsupported, "the stream is being captured");
  }
  return call.world.run_until(*stream, [&] { return stream->queue.empty(); });
}
REWIRE_FAKE_API int cuStreamWaitEvent(void* handle, void* event_handle, unsigned) {
  const ContextCall call("cuStreamWaitEvent");
  if (call.status != kSuccess) return call.status;
  const auto stream = find(call, call.world.streams, handle, "stream");
  const auto event = find(call, call.world.events, event_handle, "event");
  if (stream == nullptr || event == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr)
    return call.refuse(kNotSupported, "the fake captures one stream, without events");
  call.world.push(*stream, {Item::Kind::wait, {}, event, event->recorded});
  return kSuccess;
}

REWIRE_FAKE_API int cuEventCreate(void** handle, unsigned flags) {
  const ContextCall call("cuEventCreate");
  if (call.status != kSuccess) return call.status;
  const auto event = std::make_shared<Event>();
  event->timed = (flags & 2U) == 0;  // CU_EVENT_DISABLE_TIMING
  *handle = add(call.world.events, event);
  return kSuccess;
}
REWIRE_FAKE_API int cuEventDestroy_v2(void* handle) {
  const ContextCall call("cuEventDestroy_v2");
  if (call.world.events.erase(handle) == 0)
    return call.refuse(kInvalidHandle, "no such event, or it was destroyed");
  return call.status;
}
REWIRE_FAKE_API int cuEventRecord(void* event_handle, void* handle) {
  const ContextCall call("cuEventRecord");
  if (call.status != kSuccess) return call.status;
  const auto stream = find(call, call.world.streams, handle, "stream");
  const auto event = find(call, call.world.events, event_handle, "event");
  if (stream == nullptr || event == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr)
    return call.refuse(kNotSupported, "the fake captures one stream, without events");
  call.world.push(*stream, {Item::Kind::record, {}, event, ++event->recorded});
  return kSuccess;
}
REWIRE_FAKE_API int cuEventSynchronize(void* handle) {
  const ContextCall call("cuEventSynchronize");
  if (call.status != kSuccess) return call.status;
  const auto event = find(call, call.world.events, handle, "event");
  if (event == nullptr) return kInvalidHandle;
  const auto reached = [&] { return event->completed >= event->recorded; };
  for (const auto& [key, stream] : call.world.streams) {
    for (const Item& item : stream->queue) {
      if (item.kind == Item::Kind::record && item.event == event)
        return call.world.run_until(*stream, reached);
    }
  }
  return broken();
}
REWIRE_FAKE_API int cuEventQuery(void* handle) {
  // It never waits for the device, which works while another thread has the lock.
  const std::unique_lock free(World::get().mutex, std::try_to_lock);
  if (!free) return kNotReady;
  const ContextCall call("cuEventQuery");
  if (call.status != kSuccess) return call.status;
  const auto event = find(call, call.world.events, handle, "event");
  if (event == nullptr) return kInvalidHandle;
  return event->completed >= event->recorded ? kSuccess : kNotReady;
}
REWIRE_FAKE_API int cuEventElapsedTime(float* milliseconds, void* start_handle, void* end_handle) {
  const ContextCall call("cuEventElapsedTime");
  if (call.status != kSuccess) return call.status;
  const auto start = find(call, call.world.events, start_handle, "event");
  const auto end = find(call, call.world.events, end_handle, "event");
  if (start == nullptr || end == nullptr) return kInvalidHandle;
  if (!start->timed || !end->timed || start->recorded == 0 || end->recorded == 0)
    return call.refuse(kInvalidHandle, "an event without timing, or that was never recorded");
  if (end->completed < end->recorded) return kNotReady;
  *milliseconds = static_cast<float>((end->seconds - start->seconds) * 1e3);
  return kSuccess;
}

REWIRE_FAKE_API int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  const ContextCall call("cuLaunchHostFunc");
  if (call.status != kSuccess) return call.status;
  return enqueue(stream, "host function", [=] {
    World::get().in_host_function = true;
    function(data);
    World::get().in_host_function = false;
  });
}

}  // namespace rewire::fake_cuda

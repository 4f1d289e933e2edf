// What the files that implement the driver's ABI share: the lock and the checks that begin a call.
#pragma once

#include <cstdint>
#include <memory>

#include "tests/fake_cuda/calls.h"
#include "tests/fake_cuda/stream.h"
#include "tests/fake_cuda/world.h"

namespace rewire::fake_cuda {

using Address = unsigned long long;  // CUdeviceptr

inline std::byte* to_pointer(Address address) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
}

/// A call under way: the world is locked, the call counted.
struct Call {
  World& world = World::get();
  std::lock_guard<std::recursive_mutex> lock{world.mutex};
  const char* name;
  int status;

  /// `unsafe`: a capture forbids it.
  explicit Call(const char* call, bool unsafe = false) : name(call), status(enter(call)) {
    if (status != kSuccess) return;
    if (!world.initialized) status = kNotInitialized;
    if (unsafe && status == kSuccess && world.capturing())
      status = refuse(kCaptureUnsupported, "while a stream is captured");
  }

  int refuse(int code, const std::string& why) const {
    fault(std::string(name) + ": " + why);
    return code;
  }
};

/// A call that needs the context of the calling thread.
struct ContextCall : Call {
  explicit ContextCall(const char* call, bool unsafe = false);
};

/// The object of a handle; null, with a fault, if there is none.
template <class Objects>
typename Objects::mapped_type find(const Call& call, const Objects& objects, const void* handle,
                                   const char* kind) {
  const auto found = objects.find(handle);
  if (found != objects.end()) return found->second;
  call.refuse(kInvalidHandle, std::string("no such ") + kind + ", or it was destroyed");
  return nullptr;
}

/// A new object; its address is its handle.
template <class Objects>
void* add(Objects& objects, typename Objects::mapped_type object) {
  void* const handle = object.get();
  objects.emplace(handle, std::move(object));
  return handle;
}

}  // namespace rewire::fake_cuda

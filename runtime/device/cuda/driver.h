// NVIDIA's driver, opened on first use. Nothing links to it, and its few functions are declared here from
// its documentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/cuda/shared_library.h"

namespace rewire::runtime::cuda {

using Address = unsigned long long;  // an address in device memory

inline constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

/// Throws RuntimeFailure: "cuMemAlloc of 1.2 GB for the arena: CUDA_ERROR_OUT_OF_MEMORY (out of memory); …".
[[noreturn]] void driver_failure(std::string_view symbol, int status, std::string_view purpose);
/// Logs that text as a warning, for destructors, which cannot throw. Not twice in a row for one status.
void log_driver_failure(std::string_view symbol, int status, std::string_view purpose);

template <class Signature>
class DriverCall;

/// A function of the driver.
template <class... Parameters>
class DriverCall<int(Parameters...)> {
 public:
  DriverCall(codegen::cuda::SharedLibrary& library, const char* symbol) : symbol_(symbol) {
    library.find(function_, symbol);
  }

  /// Throws RuntimeFailure (OutOfMemory if memory is short) unless it succeeds; `purpose` follows the
  /// function's name: "of 4 kB for the state".
  void operator()(std::string_view purpose, Parameters... arguments) const {
    if (const int status = function_(arguments...); status != 0) driver_failure(symbol_, status, purpose);
  }
  /// Logs a failure instead, for destructors.
  void release(std::string_view purpose, Parameters... arguments) const noexcept {
    if (const int status = function_(arguments...); status != 0) log_driver_failure(symbol_, status, purpose);
  }
  /// Returns the driver's status.
  int status(Parameters... arguments) const { return function_(arguments...); }

 private:
  const char* symbol_;
  int (*function_)(Parameters...) = nullptr;
};

struct Driver {
  using Handle = void*;
  using HostFunction = void (*)(void*);

  codegen::cuda::SharedLibrary file{codegen::cuda::kDriver};

  DriverCall<int(unsigned)> init{file, "cuInit"};
  DriverCall<int(int*)> version{file, "cuDriverGetVersion"};
  DriverCall<int(int, const char**)> error_name{file, "cuGetErrorName"};
  DriverCall<int(int, const char**)> error_text{file, "cuGetErrorString"};

  DriverCall<int(int*)> device_count{file, "cuDeviceGetCount"};
  DriverCall<int(int*, int)> device{file, "cuDeviceGet"};
  DriverCall<int(char*, int, int)> device_name{file, "cuDeviceGetName"};
  DriverCall<int(char*, int)> device_uuid{file, "cuDeviceGetUuid_v2"};
  DriverCall<int(std::size_t*, int)> device_memory{file, "cuDeviceTotalMem_v2"};
  DriverCall<int(int*, int, int)> device_attribute{file, "cuDeviceGetAttribute"};

  DriverCall<int(Handle*, int)> retain_context{file, "cuDevicePrimaryCtxRetain"};
  DriverCall<int(int)> release_context{file, "cuDevicePrimaryCtxRelease_v2"};
  DriverCall<int(Handle)> set_context{file, "cuCtxSetCurrent"};

  DriverCall<int(Address*, std::size_t)> allocate{file, "cuMemAlloc_v2"};
  DriverCall<int(Address)> free{file, "cuMemFree_v2"};
  DriverCall<int(std::size_t*, std::size_t*)> memory_info{file, "cuMemGetInfo_v2"};
  DriverCall<int(void**, std::size_t, unsigned)> allocate_pinned{file, "cuMemHostAlloc"};
  DriverCall<int(void*)> free_pinned{file, "cuMemFreeHost"};
  DriverCall<int(Address, const void*, std::size_t, Handle)> copy_in{file, "cuMemcpyHtoDAsync_v2"};
  DriverCall<int(void*, Address, std::size_t, Handle)> copy_out{file, "cuMemcpyDtoHAsync_v2"};
  DriverCall<int(Address, Address, std::size_t, Handle)> copy{file, "cuMemcpyDtoDAsync_v2"};
  DriverCall<int(Address, unsigned char, std::size_t, Handle)> fill{file, "cuMemsetD8Async"};

  DriverCall<int(Handle*, const void*)> load_module{file, "cuModuleLoadData"};
  DriverCall<int(Handle)> unload_module{file, "cuModuleUnload"};
  DriverCall<int(Handle*, Handle, const char*)> function{file, "cuModuleGetFunction"};
  DriverCall<int(Handle, int, int)> set_attribute{file, "cuFuncSetAttribute"};
  DriverCall<int(int*, int, Handle)> attribute{file, "cuFuncGetAttribute"};
  DriverCall<int(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**,
                 void**)>
      launch{file, "cuLaunchKernel"};
  DriverCall<int(Handle, HostFunction, void*)> launch_host{file, "cuLaunchHostFunc"};

  DriverCall<int(Handle*, unsigned)> create_stream{file, "cuStreamCreate"};
  DriverCall<int(Handle)> destroy_stream{file, "cuStreamDestroy_v2"};
  DriverCall<int(Handle)> synchronise{file, "cuStreamSynchronize"};
  DriverCall<int(Handle, Handle, unsigned)> wait_for_event{file, "cuStreamWaitEvent"};
  DriverCall<int(Handle*, unsigned)> create_event{file, "cuEventCreate"};
  DriverCall<int(Handle)> destroy_event{file, "cuEventDestroy_v2"};
  DriverCall<int(Handle, Handle)> record_event{file, "cuEventRecord"};
  DriverCall<int(Handle)> synchronise_event{file, "cuEventSynchronize"};
  DriverCall<int(Handle)> query_event{file, "cuEventQuery"};
  DriverCall<int(float*, Handle, Handle)> event_time{file, "cuEventElapsedTime"};

  DriverCall<int(Handle, int)> begin_capture{file, "cuStreamBeginCapture_v2"};
  DriverCall<int(Handle, Handle*)> end_capture{file, "cuStreamEndCapture"};
  DriverCall<int(Handle*, Handle, unsigned long long)> instantiate{file, "cuGraphInstantiateWithFlags"};
  DriverCall<int(Handle, Handle)> launch_graph{file, "cuGraphLaunch"};
  DriverCall<int(Handle)> destroy_executable{file, "cuGraphExecDestroy"};
  DriverCall<int(Handle)> destroy_graph{file, "cuGraphDestroy"};
};

/// Returns in one line why the driver cannot be used; nullopt: it can, and has been initialised.
std::optional<std::string> driver_missing();
/// Returns the driver. Throws UserError with the line of driver_missing().
const Driver& driver();

}  // namespace rewire::runtime::cuda

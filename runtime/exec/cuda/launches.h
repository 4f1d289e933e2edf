// The launches of a program as a GPU's stream takes them: kernels, library calls, and ops of the host in
// between. Each can be put on a stream that is being captured.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "codegen/program.h"
#include "runtime/device/cuda/device.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/cuda/libraries.h"
#include "runtime/exec/launch_times.h"

namespace rewire::runtime {

/// Rounded up to what the driver's own allocations are aligned to.
constexpr std::int64_t device_aligned(std::int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/// The first error of the host functions of a program, which cannot throw through the driver.
class HostFailure {
 public:
  void set(const std::string& message);
  /// RuntimeFailure if there was one; there is none then.
  void rethrow();

 private:
  std::mutex mutex_;
  std::string message_;
};

/// The pointer tables of a program's launches, in one allocation on the device. A table in device memory, not
/// in the launch's parameters: these end at 32,764 bytes (CUDA 12.1 and later), and their number would be
/// part of the text, while a kernel that reads pointers by their place serves a table of any length.
class PointerTables {
 public:
  /// Appends buffers, which become their addresses; where they begin, in bytes.
  std::int64_t add(const std::vector<std::int32_t>& buffers);
  /// Writes the addresses, and waits until they are there.
  void fill(const std::vector<cuda::Address>& buffers, const cuda::Stream& stream, const std::string& what);
  /// Known once filled.
  cuda::Address address() const { return memory_.address(); }

 private:
  std::vector<std::int32_t> buffers_;
  cuda::DeviceMemory memory_;
};

class CudaLaunch {
 public:
  virtual ~CudaLaunch() = default;
  /// Memory that no other launch uses meanwhile.
  virtual std::int64_t workspace_bytes() const { return 0; }
  /// True for a library's call, which may load its kernels when it first runs: not while a stream is
  /// captured.
  virtual bool is_library_call() const { return false; }
  /// What a profile says of it, if it knows more than the program: a product with its layout and algorithm.
  virtual LaunchLabel label() const { return {}; }
  /// `buffers`: the address of element 0 of every buffer of the program; the tables hold the same ones.
  virtual void enqueue(const std::vector<cuda::Address>& buffers, cuda::Address workspace,
                       const cuda::Stream& stream) const = 0;
};

/// In the program's order; `kernels` holds one entry for each KernelLaunch. All arguments must outlive them.
std::vector<std::unique_ptr<CudaLaunch>> make_cuda_launches(const codegen::Program& program,
                                                            std::span<const CudaKernel> kernels,
                                                            CudaLibraries& libraries, PointerTables& tables,
                                                            HostFailure& failure);

}  // namespace rewire::runtime

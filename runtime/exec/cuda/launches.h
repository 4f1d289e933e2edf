// The launches of a program for a GPU's stream: kernels, library calls, and ops of the host in between. Each
// can be put on a stream that is being captured.
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

/// Rounds up to the alignment of the driver's own allocations.
constexpr std::int64_t device_aligned(std::int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/// The first error of a program's host functions, which cannot throw through the driver.
class HostFailure {
 public:
  void set(const std::string& message);
  /// Throws RuntimeFailure if an error was set, and clears it.
  void rethrow();

 private:
  std::mutex mutex_;
  std::string message_;
};

/// The pointer tables of a program's launches, in one device allocation. The parameters of a launch end at
/// 32,764 bytes (CUDA 12.1 and later), and their number would be part of the text. A kernel that reads
/// pointers from memory serves a table of any length.
class PointerTables {
 public:
  /// Appends buffers, whose addresses fill() writes; returns where they begin, in bytes.
  std::int64_t add(const std::vector<std::int32_t>& buffers);
  /// Writes the addresses and waits until they are there.
  void fill(const std::vector<cuda::Address>& buffers, const cuda::Stream& stream, const std::string& what);
  /// The address of the tables, known after fill().
  cuda::Address address() const { return memory_.address(); }

 private:
  std::vector<std::int32_t> buffers_;
  cuda::DeviceMemory memory_;
};

class CudaLaunch {
 public:
  virtual ~CudaLaunch() = default;
  /// The bytes of memory that no other launch uses meanwhile.
  virtual std::int64_t workspace_bytes() const { return 0; }
  /// True for a library's call. It may load its kernels at its first run, which must not be while a stream
  /// is captured.
  virtual bool is_library_call() const { return false; }
  /// The label in a profile, if it knows more than the program: a product with its layout and algorithm.
  virtual LaunchLabel label() const { return {}; }
  /// Enqueues the launch. `buffers`: the address of element 0 of every buffer of the program; the tables
  /// hold the same.
  virtual void enqueue(const std::vector<cuda::Address>& buffers, cuda::Address workspace,
                       const cuda::Stream& stream) const = 0;
};

/// Makes the launches in the program's order; `kernels` has an entry per KernelLaunch. All arguments must
/// outlive them.
std::vector<std::unique_ptr<CudaLaunch>> make_cuda_launches(const codegen::Program& program,
                                                            std::span<const CudaKernel> kernels,
                                                            CudaLibraries& libraries, PointerTables& tables,
                                                            HostFailure& failure);

}  // namespace rewire::runtime

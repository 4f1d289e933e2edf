// Prints one tile kernel as readable CUDA C++: the second printer of the tile IR, beside codegen/llvm. The
// text uses only the names of prelude.cuh, threadIdx.x, blockIdx.x, __syncthreads() and C's maths. So NVRTC
// compiles it for a device, and a C++ compiler, with a header in place of the device, for the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compile.h"
#include "codegen/cuda/schedule.h"
#include "codegen/program.h"
#include "codegen/tile/tile.h"
#include "ir/passes/pass.h"

namespace rewire::codegen::cuda {

/// The device limits that a schedule may use. The defaults are an H100's.
struct DeviceTarget {
  int arch = 90;  // 80, 86, 89, 90, 100, 103, 120: the device's compute capability times ten
  std::int64_t shared_bytes_per_block = 232448;  // the most that a kernel may opt in to
  int multiprocessors = 132;
  int block_warps = 0;  // of every block kernel that fits in so many; 0: the cost model decides
};

/// Returns the architectures that device_target() knows: "sm_80", ….
std::vector<std::string> architecture_names();
/// Returns the target of an architecture, with the numbers of its largest device. Throws UserError for an
/// architecture that kernels are not written for.
DeviceTarget device_target(int arch);

/// Returns how a program for the target is cut (codegen/program.h): several parts per multiprocessor, and
/// attention's tiles small enough for shared memory. A launch is weighed against the bytes moved in its
/// time.
WorkGrain work_grain(const DeviceTarget& target);
/// Returns a GPU's cost of computing a value again instead of keeping it.
ir::RecomputeCost recompute_cost();

/// Returns the device's settings for codegen::compile(); options.grain is replaced. Kernels are cut finer
/// where they would keep more on chip than a block has. Libraries take all calls, and Fourier transforms
/// stay ops.
Target machine(const DeviceTarget& target, FuseOptions options = {});

/// The grid of a launch: one dimension of blocks, one of threads (a multiple of 32), dynamic shared memory.
struct LaunchShape {
  std::int64_t blocks = 1;
  int threads = 32;
  std::int64_t shared_bytes = 0;
};

struct KernelSource {
  std::string symbol, text;
  LaunchShape launch;
};

/// Returns the schedules that the cost model ranks best, its choice first: at least one, at most `most`.
std::vector<Schedule> schedules(const tile::Kernel& kernel, const DeviceTarget& target, std::size_t most);
/// Returns whether the kernel can be written with this schedule for the target.
bool fits(const tile::Kernel& kernel, const Schedule& schedule, const DeviceTarget& target);

/// Writes `extern "C" __global__ void SYMBOL(one pointer for each of kernel.arguments, in their order, to
/// element 0)`, without the prelude. Every pointer is aligned to 16 bytes. The kernel must be verified.
/// `schedule`: nullptr is the cost model's. Throws InternalError if the kernel needs more shared memory than
/// the target has, or the schedule does not fit.
KernelSource emit(const tile::Kernel& kernel, const std::string& symbol, const DeviceTarget& target,
                  const Schedule* schedule = nullptr);

/// Writes the kernel of a launch. A table's kernel is `SYMBOL(void* const* table)`: the pointers of its
/// members, one member's arguments after another's. Blocks (x, y) do what block x does, for member y alone.
/// The number of members appears only in a comment.
KernelSource emit(const KernelLaunch& launch, const std::string& symbol, const DeviceTarget& target,
                  const Schedule* schedule = nullptr);
/// Returns a key: launches with equal keys and schedules have the same text, but for names and comments.
std::string text_key(const KernelLaunch& launch);

/// Returns prelude.cuh, the text that must precede all kernels once.
std::string_view prelude();

}  // namespace rewire::codegen::cuda

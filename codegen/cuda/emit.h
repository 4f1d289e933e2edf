// One tile kernel as readable CUDA C++: the second printer of the tile IR beside codegen/llvm. The text of a
// kernel names only what prelude.cuh declares, threadIdx.x, blockIdx.x, __syncthreads() and C's own maths, so
// NVRTC compiles it for a device and a C++ compiler, with a header that stands in for the device, for the
// host.
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

/// What a schedule may count on. The defaults are those of an H100.
struct DeviceTarget {
  int arch = 90;  // 80, 86, 89, 90, 100, 120: the device's compute capability times ten
  std::int64_t shared_bytes_per_block = 232448;  // the most that a kernel may opt in to
  int multiprocessors = 132;
};

/// "sm_80", …: those that device_target() knows.
std::vector<std::string> architecture_names();
/// The target of an architecture, the largest device of it; UserError for one that kernels are not written
/// for.
DeviceTarget device_target(int arch);

/// How a program for the target is cut (codegen/program.h): parts enough to give every multiprocessor two
/// blocks, attention's tiles small enough for shared memory; a launch is worth what memory moves meanwhile.
WorkGrain work_grain(const DeviceTarget& target);
/// What a GPU pays for computing a value again instead of keeping it.
ir::RecomputeCost recompute_cost();

/// What codegen::compile() asks of the device, whatever options.grain is: it cuts finer where a kernel would
/// otherwise keep more on chip than a block has. Its libraries take all calls, and Fourier transforms stay
/// ops.
Target machine(const DeviceTarget& target, FuseOptions options = {});

/// One dimension of blocks, one of threads (a multiple of 32), dynamic shared memory.
struct LaunchShape {
  std::int64_t blocks = 1;
  int threads = 32;
  std::int64_t shared_bytes = 0;
};

struct KernelSource {
  std::string symbol, text;
  LaunchShape launch;
};

/// The few schedules of a kernel that the cost model thinks best, its own first; one at least.
std::vector<Schedule> schedules(const tile::Kernel& kernel, const DeviceTarget& target, std::size_t most);
/// Whether the kernel can be written with this schedule for the target.
bool fits(const tile::Kernel& kernel, const Schedule& schedule, const DeviceTarget& target);

/// `extern "C" __global__ void SYMBOL(one pointer for each of kernel.arguments, in their order, to element
/// 0)`, without the prelude. Every pointer is aligned to 16 bytes. The kernel must be verified; InternalError
/// where it needs more shared memory than the target has. `schedule`: nullptr is the cost model's;
/// InternalError on one that does not fit.
KernelSource emit(const tile::Kernel& kernel, const std::string& symbol, const DeviceTarget& target,
                  const Schedule* schedule = nullptr);

/// The same for a launch. A table's kernel is `SYMBOL(void* const* table)`: the pointers of its members, one
/// member's arguments after the other's; blocks (x, y) do what block x does for member y alone. The number
/// of members stands in a comment only.
KernelSource emit(const KernelLaunch& launch, const std::string& symbol, const DeviceTarget& target,
                  const Schedule* schedule = nullptr);
/// Launches with one key and one schedule have one text, but for names and comments.
std::string text_key(const KernelLaunch& launch);

/// The text that must stand once before any kernel: prelude.cuh.
std::string_view prelude();

}  // namespace rewire::codegen::cuda

// Chooses a kernel's form and writes it; see emit.h.
#include "codegen/cuda/emit.h"

#include "codegen/cuda/blocks.h"
#include "codegen/cuda/rows.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {

DeviceTarget device_target(int arch) {
  if (arch == 80) return {80, 166912, 108};
  if (arch == 90) return {90, 232448, 132};
  if (arch == 100) return {100, 232448, 148};
  user_error("sm_{} is no architecture that kernels are written for; there are sm_80, sm_90 and sm_100",
             arch);
}

WorkGrain work_grain(const DeviceTarget& target) {
  return {4096, 2 * std::int64_t{target.multiprocessors}, 8192, 4608, true, true, 16384};
}

KernelSource emit(const tile::Kernel& kernel, const std::string& symbol, const DeviceTarget& target) {
  const auto rows = plan_rows(kernel, target);
  if (rows && !rows->crowded) return emit_rows(kernel, symbol, *rows);
  if (const auto block = plan_block(kernel, target)) return emit_block(kernel, symbol, *block);
  if (rows) return emit_rows(kernel, symbol, *rows);
  internal_error("tile kernel {}: what it keeps on chip is more than the {} bytes of shared memory of sm_{}",
                 kernel.name, target.shared_bytes_per_block, target.arch);
}

}  // namespace rewire::codegen::cuda

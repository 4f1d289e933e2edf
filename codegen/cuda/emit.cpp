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
  return {4096, 2 * std::int64_t{target.multiprocessors}, 4608};
}

KernelSource emit(const tile::Kernel& kernel, const std::string& symbol, const DeviceTarget& target) {
  if (const auto rows = plan_rows(kernel, target)) return emit_rows(kernel, symbol, *rows);
  return emit_block(kernel, symbol, plan_block(kernel, target));
}

}  // namespace rewire::codegen::cuda

// The engine on an NVIDIA GPU. It lowers a function for the device, compiles its kernels by NVRTC, and
// captures all launches once as one CUDA graph, which each run replays. The state stays on the device.
//
//   inputs ─copy─▶ pinned slot ─▶ staging on the device ─┐            second stream, while a step runs
//                                                        ▼
//                            arguments ─▶ graph ─▶ results ─▶ pinned slot       first stream
//
// Programs share one arena. submit() waits only for a free slot, two runs back; results() waits for its own
// run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "ir/module.h"
#include "runtime/device/cuda/device.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/kernel_override.h"
#include "runtime/exec/others_updates.h"
#include "runtime/exec/tune/choice_record.h"

namespace rewire::runtime {

struct CudaEngineOptions {
  int device = cuda::own_device();
  CompileOptions compiling;
  bool fuse = true;  // false: one kernel per op, for the differential tests
  /// The algorithms of matrix products and the schedules of kernels. Without one, cuBLASLt's first algorithm
  /// and the cost model's schedule are taken.
  ChoiceRecord choices;
  std::vector<KernelOverride> overrides;
  StatesOfOthers others;  // as EngineSettings::others
  /// Fills arena, inputs and results with NaN before every run, checks the gap after every buffer, and so
  /// waits for each run.
  bool check_memory = false;
};

/// Returns the properties of a device that kernels may count on, with the warps of `choices` (tune_keys.h).
codegen::cuda::DeviceTarget target_of(const cuda::DeviceFacts& facts, const ChoiceRecord& choices = {});

/// Makes the engine of a verified module. Throws UserError with the line of cuda_missing(), and on an
/// override that fits no kernel of the module or does not compile; RuntimeFailure if the driver fails.
std::unique_ptr<JitEngine> make_cuda_engine(const ir::Module& module, const CudaEngineOptions& options = {});

}  // namespace rewire::runtime

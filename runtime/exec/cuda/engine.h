// The engine on an NVIDIA GPU. A function is lowered for the device, its kernels are compiled by NVRTC, and
// all its launches are captured once as one CUDA graph, which each run replays. The state stays on the
// device.
//
//   inputs ─copy─▶ pinned slot ─▶ staging on the device ─┐            second stream, while a step runs
//                                                        ▼
//                            arguments ─▶ graph ─▶ results ─▶ pinned slot       first stream
//
// Programs share one arena. submit() waits for nothing but a free slot, two runs back; results() waits for
// its own run.
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
#include "runtime/exec/tune/choice_record.h"

namespace rewire::runtime {

struct CudaEngineOptions {
  int device = 0;
  CompileOptions compiling;
  bool fuse = true;  // false: one kernel an op, for the differential tests
  /// The algorithms of matrix products and the schedules of kernels; of those that are not in it, cuBLASLt's
  /// first and the cost model's.
  ChoiceRecord choices;
  std::vector<KernelOverride> overrides;
  /// Fills arena, inputs and results with NaN before every run, checks the gaps behind every buffer after it,
  /// and so waits for each run.
  bool check_memory = false;
};

/// What kernels for a device may count on.
codegen::cuda::DeviceTarget target_of(const cuda::DeviceFacts& facts);

/// Why there can be no such engine on this machine, in one line: no driver, no device, no NVRTC, no cuBLASLt;
/// "": there can.
std::string cuda_missing();
/// "NVIDIA H100 80GB HBM3, sm_90"
std::string describe(const cuda::DeviceFacts& facts);

/// The module must be verified. UserError with the line above, and on an override that fits no kernel of the
/// module's or does not compile; RuntimeFailure where the driver fails.
std::unique_ptr<JitEngine> make_cuda_engine(const ir::Module& module, const CudaEngineOptions& options = {});

}  // namespace rewire::runtime

// A function as launches for a GPU: passes, lowering with the device's own grain, its products as cuBLASLt
// takes them, its Fourier transforms as products or as cuFFT takes them, and its attention and the epilogues
// of its products by whom it was chosen to be.
#pragma once

#include <functional>

#include "codegen/cuda/emit.h"
#include "codegen/program.h"
#include "ir/module.h"
#include "runtime/exec/cuda_libraries.h"

namespace rewire::runtime {

struct DeviceLowering {
  codegen::cuda::DeviceTarget target;
  bool training = false;  // what is_training answers
  bool fuse = true;       // false: one kernel an op
  /// Told of each attention that cuDNN may be asked for; empty: nobody wants to know.
  std::function<void(const codegen::DeviceAttentionShape&)> on_attention = {};
  /// Told of each epilogue that cuBLASLt was to compute with a product, and whether it takes it; empty:
  /// nobody wants to know.
  std::function<void(const codegen::ProductEpilogue&, bool taken)> on_epilogue = {};
};

codegen::Program lower_for_device(const ir::Module& module, const ir::Function& function,
                                  const DeviceLowering& lowering, CudaLibraries& libraries);

}  // namespace rewire::runtime

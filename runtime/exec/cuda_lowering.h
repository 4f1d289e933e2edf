// A function as launches for a GPU: passes, lowering with the device's own grain, its products as cuBLASLt
// takes them and its Fourier transforms as products or as cuFFT takes them.
#pragma once

#include "codegen/cuda/emit.h"
#include "codegen/program.h"
#include "ir/module.h"
#include "runtime/exec/cuda_libraries.h"

namespace rewire::runtime {

struct DeviceLowering {
  codegen::cuda::DeviceTarget target;
  bool training = false;  // what is_training answers
  bool fuse = true;       // false: one kernel an op
};

codegen::Program lower_for_device(const ir::Module& module, const ir::Function& function,
                                  const DeviceLowering& lowering, CudaLibraries& libraries);

}  // namespace rewire::runtime

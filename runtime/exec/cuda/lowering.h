// A function as launches for a GPU with its libraries: products as cuBLASLt takes them, Fourier transforms as
// products or as cuFFT takes them, attention and the epilogues of products by whom it was chosen to be.
#pragma once

#include <functional>

#include "codegen/cuda/emit.h"
#include "codegen/program.h"
#include "ir/module.h"
#include "runtime/exec/cuda/libraries.h"

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

/// What codegen::compile() asks of the device. It refers to `libraries`.
codegen::Target machine_of(const DeviceLowering& lowering, CudaLibraries& libraries);
codegen::Compiled compile_for_device(const ir::Module& module, const ir::Function& function,
                                     const DeviceLowering& lowering, CudaLibraries& libraries,
                                     ir::PassContext& context);
/// Its launches alone.
codegen::Program lower_for_device(const ir::Module& module, const ir::Function& function,
                                  const DeviceLowering& lowering, CudaLibraries& libraries);

}  // namespace rewire::runtime

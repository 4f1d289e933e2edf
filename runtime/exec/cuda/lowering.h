// Lowers a function to launches for a GPU with its libraries. Products take cuBLASLt's form, and Fourier
// transforms are products or cuFFT's; attention and product epilogues follow the choices.
#pragma once

#include <functional>

#include "codegen/cuda/emit.h"
#include "codegen/program.h"
#include "ir/module.h"
#include "runtime/exec/cuda/libraries.h"

namespace rewire::runtime {

struct DeviceLowering {
  codegen::cuda::DeviceTarget target;
  bool fuse = true;  // false: one kernel per op
  /// Called for each attention that cuDNN may be asked for; may be empty.
  std::function<void(const codegen::DeviceAttentionShape&)> on_attention = {};
  /// Called for each epilogue that cuBLASLt was to compute with a product, with whether it takes it; may be
  /// empty.
  std::function<void(const codegen::ProductEpilogue&, bool taken)> on_epilogue = {};
};

/// Returns the device's answers to codegen::compile(). It refers to `libraries`.
codegen::Target machine_of(const DeviceLowering& lowering, CudaLibraries& libraries);
codegen::Compiled compile_for_device(const ir::Module& module, const ir::Function& function,
                                     const DeviceLowering& lowering, CudaLibraries& libraries,
                                     ir::PassContext& context);
/// Lowers a function and returns its launches alone.
codegen::Program lower_for_device(const ir::Module& module, const ir::Function& function,
                                  const DeviceLowering& lowering, CudaLibraries& libraries);

}  // namespace rewire::runtime

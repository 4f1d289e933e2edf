// The runtime's engine on the fake device: what holds the CPU's engines to their references holds the CUDA
// printer to them.
#pragma once

#include <filesystem>
#include <memory>

#include "codegen/cuda/emit.h"
#include "runtime/exec/engine.h"
#include "tests/cuda_shim/compile.h"
#include "tests/cuda_shim/fake_device.h"

namespace rewire::cuda_shim {

/// The build's folder of compiled kernels.
std::filesystem::path kernel_folder();

struct DeviceEngineOptions {
  codegen::cuda::DeviceTarget target;
  LaunchOptions launch;
  bool fuse = true;
};

/// The module must be verified. Engines that share a compiler compile their common kernels once; it must
/// outlive them.
std::unique_ptr<runtime::Engine> make_device_engine(const ir::Module& module, HostCompiler& compiler,
                                                    const DeviceEngineOptions& options = {});

}  // namespace rewire::cuda_shim

// A command's functions lowered for a device, with the stream for timing, as the choices need them
// (attention_choices.h, epilogue_choices.h, gemm_choices.h, tile_choices.h).
#pragma once

#include <string>
#include <vector>

#include "codegen/program.h"
#include "ir/module.h"
#include "runtime/device/cuda/device.h"
#include "runtime/exec/cuda/libraries.h"

namespace rewire::runtime {

struct DevicePrograms {
  cuda::Context context;
  cuda::Stream stream;
  CudaLibraries libraries;
  std::vector<codegen::Program> programs;
  std::vector<codegen::DeviceAttentionShape> attention;     // attention that cuDNN may compute, each once
  std::vector<codegen::ProductEpilogue> epilogues;          // epilogues that cuBLASLt computes, each once
  std::vector<codegen::ProductEpilogue> refused_epilogues;  // epilogues that it refuses, each once

  /// Lowers the functions of these names for device 0, in the module's order and as `choices` say.
  DevicePrograms(const ir::Module& module, const std::vector<std::string>& functions,
                 const ChoiceRecord& choices = {});
};

}  // namespace rewire::runtime

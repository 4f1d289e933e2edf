// A command's functions lowered for a device: what choices are made over (attention_choices.h,
// epilogue_choices.h, gemm_choices.h, tile_choices.h), with the stream that times them.
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
  std::vector<codegen::DeviceAttentionShape> attention;     // what cuDNN may be asked for, each once
  std::vector<codegen::ProductEpilogue> epilogues;          // what cuBLASLt computes with products, each once
  std::vector<codegen::ProductEpilogue> refused_epilogues;  // what it would, but refuses; each once

  /// The functions of these names, in the module's order, on device 0, with what `choices` say of how they
  /// are lowered.
  DevicePrograms(const ir::Module& module, const std::vector<std::string>& functions,
                 const ChoiceRecord& choices = {});
};

}  // namespace rewire::runtime

#include "runtime/exec/cuda_lowering.h"

#include "ir/passes/pass.h"

namespace rewire::runtime {

codegen::Program lower_for_device(const ir::Module& module, const ir::Function& function,
                                  const DeviceLowering& lowering, CudaLibraries& libraries) {
  ir::Module single = module;
  single.functions = {function};
  ir::PassContext context;
  context.training = lowering.training;
  context.fourier = [&](const ir::FourierRows& rows) { return libraries.fourier(rows); };
  ir::run_pipeline(single, context);
  const codegen::WorkGrain grain = codegen::cuda::work_grain(lowering.target);
  codegen::FuseOptions options{lowering.fuse, grain};
  options.attention = [&](const codegen::Program& program, const codegen::AttentionLaunch& launch) {
    const auto shape = codegen::device_attention(program, launch);
    if (shape && lowering.on_attention) lowering.on_attention(*shape);
    return shape && libraries.attention(*shape) != nullptr;
  };
  codegen::Program program = codegen::lower(single, single.functions.front(), options);
  codegen::fit_gemms(
      program, [&](const codegen::DeviceGemmShape& shape) { return libraries.answer(shape); },
      libraries.tf32(), grain);
  return program;
}

}  // namespace rewire::runtime

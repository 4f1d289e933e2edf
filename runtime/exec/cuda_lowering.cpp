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
  codegen::Program program = codegen::lower(single, single.functions.front(), {lowering.fuse, grain});
  codegen::fit_gemms(
      program, [&](const codegen::DeviceGemmShape& shape) { return libraries.answer(shape); },
      libraries.tf32(), grain);
  return program;
}

}  // namespace rewire::runtime

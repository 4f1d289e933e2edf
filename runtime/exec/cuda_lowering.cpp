#include "runtime/exec/cuda_lowering.h"

#include <set>

#include "ir/error.h"
#include "ir/passes/pass.h"

namespace rewire::runtime {
namespace {

using codegen::GemmEpilogue;
using codegen::ProductEpilogue;
using codegen::Program;

ProductEpilogue facts_of(const Program& program, const codegen::GemmLaunch& gemm) {
  const auto dtype = [&](const codegen::View& view) {
    return program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype;
  };
  const std::int64_t n = gemm.c.shape.back();
  return {gemm.epilogue, gemm.pre.buffer >= 0, ir::element_count(gemm.c.shape) / n, n, gemm.a.shape.back(),
          dtype(gemm.a), dtype(gemm.c)};
}

/// The epilogues of a program's products: those that cuBLASLt takes in one call, as they lie in memory, and
/// the others.
struct Epilogues {
  std::set<ProductEpilogue> taken, refused;
};
Epilogues epilogues_of(const Program& program, CudaLibraries& libraries) {
  Epilogues found;
  for (const codegen::Launch& launch : program.launches) {
    const auto* gemm = std::get_if<codegen::GemmLaunch>(&launch);
    if (gemm == nullptr || gemm->epilogue == GemmEpilogue::none) continue;
    const auto calls = codegen::device_gemm_calls(program, *gemm, libraries.tf32());
    const bool taken = calls.size() == 1 && libraries.answer(calls[0].shape) == codegen::GemmAnswer::one_call;
    (taken ? found.taken : found.refused).insert(facts_of(program, *gemm));
  }
  return found;
}

/// With the epilogues that were chosen, but for those that cuBLASLt refuses: these products are as without.
Program lower_with_epilogues(const ir::Module& module, const DeviceLowering& lowering,
                             codegen::FuseOptions options, CudaLibraries& libraries) {
  std::set<ProductEpilogue> refused;
  options.epilogue = [&](const ProductEpilogue& epilogue) {
    return !refused.contains(epilogue) && libraries.computes(epilogue);
  };
  while (true) {
    Program program = codegen::cuda::lower(module, module.functions.front(), lowering.target, options);
    const Epilogues found = epilogues_of(program, libraries);
    if (found.refused.empty()) {
      if (!lowering.on_epilogue) return program;
      for (const ProductEpilogue& epilogue : found.taken) lowering.on_epilogue(epilogue, true);
      for (const ProductEpilogue& epilogue : refused) lowering.on_epilogue(epilogue, false);
      return program;
    }
    const std::size_t known = refused.size();
    refused.insert(found.refused.begin(), found.refused.end());
    if (refused.size() == known) internal_error("an epilogue that cuBLASLt refuses was fused again");
  }
}

}  // namespace

codegen::Program lower_for_device(const ir::Module& module, const ir::Function& function,
                                  const DeviceLowering& lowering, CudaLibraries& libraries) {
  ir::Module single = module;
  single.functions = {function};
  ir::PassContext context;
  context.training = lowering.training;
  context.fourier = [&](const ir::FourierRows& rows) { return libraries.fourier(rows); };
  context.recompute = codegen::cuda::recompute_cost();
  ir::run_pipeline(single, context);
  codegen::FuseOptions options{lowering.fuse};
  options.attention = [&](const codegen::Program& program, const codegen::AttentionLaunch& launch) {
    const auto shape = codegen::device_attention(program, launch);
    if (shape && lowering.on_attention) lowering.on_attention(*shape);
    return shape && libraries.attention(*shape) != nullptr;
  };
  codegen::Program program = lower_with_epilogues(single, lowering, options, libraries);
  codegen::fit_gemms(
      program, [&](const codegen::DeviceGemmShape& shape) { return libraries.answer(shape); },
      libraries.tf32(), codegen::cuda::work_grain(lowering.target));
  return program;
}

}  // namespace rewire::runtime

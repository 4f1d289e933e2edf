#include "runtime/exec/cuda/lowering.h"

#include <memory>
#include <set>

#include "ir/error.h"
#include "ir/passes/pass.h"
#include "runtime/exec/tune/tune_keys.h"

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

/// The epilogues of a program's products. `taken`: cuBLASLt computes them in one call with their memory
/// layout. `refused`: the others.
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

}  // namespace

codegen::Target machine_of(const DeviceLowering& lowering, CudaLibraries& libraries) {
  codegen::Target machine = codegen::cuda::machine(lowering.target, {lowering.fuse});
  tune(machine.fuse.grain, libraries.choices());
  machine.fourier = [&libraries](const ir::FourierRows& rows) { return libraries.fourier(rows); };
  // A pass for which cuDNN has no engine in bf16 stays in f32.
  machine.narrow_convolution = [&libraries](ir::Opcode code, const ir::ConvShape& shape, bool channels_last) {
    return std::holds_alternative<codegen::CudnnConvolution>(
        libraries.convolution({.code = code,
                               .shape = shape,
                               .channels_last = channels_last,
                               .dtype = ir::DType::bf16,
                               .tf32 = false,
                               .alignment = 16}));
  };
  machine.fuse.attention = [&libraries, told = lowering.on_attention](const Program& program,
                                                                      const codegen::OpCall& call) {
    const auto shape = codegen::device_attention(program, call);
    if (shape && told) told(*shape);
    return shape && libraries.attention(*shape) != nullptr;
  };
  // Uses the chosen epilogues that cuBLASLt does not refuse. The other products are
  // lowered without epilogue.
  const auto refused = std::make_shared<std::set<ProductEpilogue>>();
  machine.fuse.epilogue = [&libraries, refused](const ProductEpilogue& epilogue) {
    return !refused->contains(epilogue) && libraries.computes(epilogue);
  };
  machine.accepts = [&libraries, refused, fits = machine.accepts, grain = machine.fuse.grain,
                     told = lowering.on_epilogue](const Program& program, codegen::FuseOptions& fuse) {
    if (!fits(program, fuse)) return false;
    const Epilogues found = epilogues_of(program, libraries);
    if (found.refused.empty()) {
      if (!told) return true;
      for (const ProductEpilogue& epilogue : found.taken) told(epilogue, true);
      for (const ProductEpilogue& epilogue : *refused) told(epilogue, false);
      return true;
    }
    const std::size_t known = refused->size();
    refused->insert(found.refused.begin(), found.refused.end());
    if (refused->size() == known) internal_error("an epilogue that cuBLASLt refuses was fused again");
    fuse.grain = grain;
    return false;
  };
  machine.fit_calls = [&libraries, grain = machine.fuse.grain](Program& program) {
    codegen::fit_gemms(
        program, [&](const codegen::DeviceGemmShape& shape) { return libraries.answer(shape); },
        libraries.tf32(), grain);
  };
  return machine;
}

codegen::Compiled compile_for_device(const ir::Module& module, const ir::Function& function,
                                     const DeviceLowering& lowering, CudaLibraries& libraries,
                                     ir::PassContext& context) {
  return codegen::compile(module, function, machine_of(lowering, libraries), context);
}

codegen::Program lower_for_device(const ir::Module& module, const ir::Function& function,
                                  const DeviceLowering& lowering, CudaLibraries& libraries) {
  ir::PassContext context;
  return compile_for_device(module, function, lowering, libraries, context).program;
}

}  // namespace rewire::runtime

// LLVM's passes and code generation. The emitter already writes vector code, so the passes only clean up
// after it: locals to registers, duplicate address arithmetic, invariants out of loops. Their choice is by
// measured compile time (bench/kernels.cpp).
#include "codegen/llvm/compile.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include "codegen/library_call.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/product.h"
#include "ir/error.h"

namespace rewire::codegen::cpu {

struct KernelCompiler::Impl {
  Impl(const CpuTarget& cpu, bool optimise) : target(cpu) {
    const std::string triple = llvm::sys::getProcessTriple();
    std::string error;
    const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, error);
    if (backend == nullptr) internal_error("LLVM has no backend for {}: {}", triple, error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // what carries `contract`
    machine.reset(backend->createTargetMachine(
        triple, target.name, target.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
        optimise ? llvm::CodeGenOptLevel::Default : llvm::CodeGenOptLevel::None, true));
  }

  template <class Emit>
  std::unique_ptr<llvm::Module> optimised(llvm::LLVMContext& context, const std::string& name,
                                          const Emit& emit) const {
    auto result = std::make_unique<llvm::Module>(name, context);
    result->setTargetTriple(machine->getTargetTriple().str());
    result->setDataLayout(machine->createDataLayout());
    emit(*result);
    optimise(*result);
    return result;
  }

  std::unique_ptr<llvm::Module> module(llvm::LLVMContext& context, const LoopProgram& program,
                                       const std::string& symbol) const {
    return optimised(context, symbol,
                     [&](llvm::Module& module) { Emitter(module, program, target).emit(symbol); });
  }

  std::unique_ptr<llvm::Module> product(llvm::LLVMContext& context) const {
    return optimised(context, "product", [&](llvm::Module& module) { emit_product(module, target); });
  }

  void optimise(llvm::Module& module) const {
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager components;
    llvm::ModuleAnalysisManager modules;
    llvm::PassBuilder builder(machine.get());
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
    llvm::FunctionPassManager passes;
    passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    passes.addPass(llvm::SimplifyCFGPass());
    passes.addPass(llvm::EarlyCSEPass(true));
    passes.addPass(llvm::InstCombinePass());
    passes.addPass(
        llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
    for (llvm::Function& function : module) {
      if (!function.isDeclaration()) passes.run(function, functions);
    }
  }

  std::string emit(llvm::Module& module, llvm::CodeGenFileType type) const {
    llvm::SmallString<0> text;
    llvm::raw_svector_ostream stream(text);
    llvm::legacy::PassManager passes;
    if (machine->addPassesToEmitFile(passes, stream, nullptr, type)) {
      internal_error("LLVM cannot emit code for {}", target.name);
    }
    passes.run(module);
    return text.str().str();
  }

  LoopProgram program(const tile::Kernel& kernel) const {
    tile::verify(kernel);
    return build_loop_program(kernel, target.vector_width);
  }

  CpuTarget target;
  std::unique_ptr<llvm::TargetMachine> machine;
};

KernelCompiler::KernelCompiler(const CpuTarget& target, bool optimise) {
  const LibraryCall call(kCompilerHeadroom, kFewerCompilers);
  impl_ = std::make_unique<Impl>(target, optimise);
}
KernelCompiler::~KernelCompiler() = default;

KernelObject KernelCompiler::compile(const tile::Kernel& kernel, const std::string& symbol) {
  const LoopProgram program = impl_->program(kernel);
  const LibraryCall call(kCompilerHeadroom, kFewerCompilers);
  llvm::LLVMContext context;
  const std::unique_ptr<llvm::Module> module = impl_->module(context, program, symbol);
  return {impl_->emit(*module, llvm::CodeGenFileType::ObjectFile), program.scratch_bytes};
}

std::string KernelCompiler::optimised_ir(const tile::Kernel& kernel, const std::string& symbol) {
  const LoopProgram program = impl_->program(kernel);
  const LibraryCall call(kCompilerHeadroom, kFewerCompilers);
  llvm::LLVMContext context;
  std::string text;
  llvm::raw_string_ostream stream(text);
  impl_->module(context, program, symbol)->print(stream, nullptr);
  return text;
}

std::string KernelCompiler::assembly(const tile::Kernel& kernel, const std::string& symbol) {
  const LoopProgram program = impl_->program(kernel);
  const LibraryCall call(kCompilerHeadroom, kFewerCompilers);
  llvm::LLVMContext context;
  return impl_->emit(*impl_->module(context, program, symbol), llvm::CodeGenFileType::AssemblyFile);
}

std::string KernelCompiler::compile_product() {
  const LibraryCall call(kCompilerHeadroom, kFewerCompilers);
  llvm::LLVMContext context;
  return impl_->emit(*impl_->product(context), llvm::CodeGenFileType::ObjectFile);
}

std::string KernelCompiler::product_text(bool assembly) {
  const LibraryCall call(kCompilerHeadroom, kFewerCompilers);
  llvm::LLVMContext context;
  const std::unique_ptr<llvm::Module> module = impl_->product(context);
  if (assembly) return impl_->emit(*module, llvm::CodeGenFileType::AssemblyFile);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, nullptr);
  return text;
}

}  // namespace rewire::codegen::cpu

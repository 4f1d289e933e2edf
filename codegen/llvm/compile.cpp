// LLVM's passes and code generation. The emitter already writes vector code, so the passes only clean up:
// they move locals to registers, merge duplicate address arithmetic, and move invariants out of loops. They
// were chosen by measured compile time (bench/kernels.cpp).
#include "codegen/llvm/compile.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/AssemblyAnnotationWriter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/FormattedStream.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "codegen/library_call.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/product.h"
#include "ir/error.h"

namespace rewire::codegen::cpu {

namespace {

/// Marks each instruction that has a debug location: its line follows in a comment.
constexpr std::string_view kMark = " ; line ";
class LineMarks final : public llvm::AssemblyAnnotationWriter {
 public:
  void printInfoComment(const llvm::Value& value, llvm::formatted_raw_ostream& out) override {
    const auto* instruction = llvm::dyn_cast<llvm::Instruction>(&value);
    if (instruction != nullptr && instruction->getDebugLoc())
      out << kMark << instruction->getDebugLoc().getLine();
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  std::string line;
  while (std::getline(stream, line)) lines.push_back(std::move(line));
  return lines;
}

/// Returns the value of each line of `text`. `marked` has the same lines in the same order, with debug
/// locations, and others in between. `line_of(line)` removes what debug locations added to a line, and
/// returns its location; 0: none.
template <class LineOf>
std::vector<std::int32_t> values_of(const std::string& text, const std::string& marked,
                                    const LineOf& line_of) {
  const std::vector<std::string> lines = lines_of(text);
  std::vector<std::int32_t> values;
  for (std::string& line : lines_of(marked)) {
    const std::int32_t location = line_of(line);
    if (values.size() < lines.size() && line == lines[values.size()]) values.push_back(location - 1);
  }
  values.resize(lines.size(), -1);
  return values;
}

std::vector<std::int32_t> values_of_ir(const std::string& text, const std::string& marked) {
  return values_of(text, marked, [](std::string& line) {
    std::int32_t location = 0;
    if (const std::size_t mark = line.rfind(kMark); mark != std::string::npos) {
      location = std::stoi(line.substr(mark + kMark.size()));
      line.resize(mark);
    }
    for (const std::string_view attachment : {", !dbg !", " !dbg !"}) {
      const std::size_t at = line.find(attachment);
      if (at == std::string::npos) continue;
      const std::size_t end = line.find_first_not_of("0123456789", at + attachment.size());
      line.erase(at, end == std::string::npos ? end : end - at);
    }
    return line.starts_with("  br ") ? 0 : location;
  });
}

std::vector<std::int32_t> values_of_assembly(const std::string& text, const std::string& marked) {
  std::int32_t now = 0;
  return values_of(text, marked, [&now](std::string& line) {
    constexpr std::string_view kLocation = "\t.loc\t";  // file, line, column
    if (line.starts_with(kLocation)) {
      const std::size_t space = line.find(' ', kLocation.size());
      now = space == std::string::npos ? 0 : std::stoi(line.substr(space + 1));
    } else if (!line.starts_with('\t')) {
      now = 0;  // a label: the code after it belongs to no value, up to the next location
    }
    return line.starts_with("\t.") || line.starts_with("\tj") ? 0 : now;  // a jump has no value either
  });
}

}  // namespace

struct KernelCompiler::Impl {
  Impl(const CpuTarget& cpu, bool optimise) : target(cpu) {
    const std::string triple = llvm::sys::getProcessTriple();
    std::string error;
    const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, error);
    if (backend == nullptr) internal_error("LLVM has no backend for {}: {}", triple, error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // fuses ops with the flag `contract`
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
                                       const std::string& symbol, bool trace = false) const {
    return optimised(context, symbol,
                     [&](llvm::Module& module) { Emitter(module, program, target, trace).emit(symbol); });
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

TracedText KernelCompiler::traced(const tile::Kernel& kernel, const std::string& symbol, bool assembly) {
  const LoopProgram program = impl_->program(kernel);
  std::string marked;
  {
    const LibraryCall call(kCompilerHeadroom, kFewerCompilers);
    llvm::LLVMContext context;
    const std::unique_ptr<llvm::Module> module = impl_->module(context, program, symbol, /*trace=*/true);
    if (assembly) {
      marked = impl_->emit(*module, llvm::CodeGenFileType::AssemblyFile);
    } else {
      llvm::raw_string_ostream stream(marked);
      LineMarks marks;
      module->print(stream, &marks);
    }
  }
  TracedText traced;
  traced.text = assembly ? this->assembly(kernel, symbol) : optimised_ir(kernel, symbol);
  traced.values = assembly ? values_of_assembly(traced.text, marked) : values_of_ir(traced.text, marked);
  // Values that the loop program added are not values of the kernel.
  const auto last = static_cast<std::int32_t>(kernel.values.size()) - 1;
  std::ranges::replace_if(traced.values, [&](std::int32_t value) { return value > last; }, -1);
  return traced;
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

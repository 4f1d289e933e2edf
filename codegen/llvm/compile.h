// One kernel from tile IR to an object file in memory. LLVM's heavy headers stay in compile.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "codegen/llvm/target.h"
#include "codegen/llvm/traced_text.h"
#include "codegen/tile/tile.h"

namespace rewire::codegen::cpu {

struct KernelObject {
  std::string object;  // ELF
  std::int64_t scratch_bytes = 0;
};

/// For one thread at a time.
class KernelCompiler {
 public:
  /// Without `optimise`, LLVM selects and allocates as quickly as it can: a third of the time, slower code.
  explicit KernelCompiler(const CpuTarget& target, bool optimise = true);
  ~KernelCompiler();
  KernelCompiler(const KernelCompiler&) = delete;
  KernelCompiler& operator=(const KernelCompiler&) = delete;

  /// The object's one global symbol is `symbol`, of type KernelFunction.
  KernelObject compile(const tile::Kernel& kernel, const std::string& symbol);
  std::string optimised_ir(const tile::Kernel& kernel, const std::string& symbol);
  std::string assembly(const tile::Kernel& kernel, const std::string& symbol);

  /// The same text, with what its lines are of. `assembly`: the assembly, else the optimised IR.
  TracedText traced(const tile::Kernel& kernel, const std::string& symbol, bool assembly);

  /// An object with the functions of ProductCode (product.h), or their text: optimised LLVM IR, or assembly.
  std::string compile_product();
  std::string product_text(bool assembly);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What the machine code depends on besides the kernel: LLVM's version, the sources of this code generator.
std::string_view compiler_identity();

}  // namespace rewire::codegen::cpu

// Compiles one kernel from tile IR to an object file in memory. LLVM's heavy headers stay in compile.cpp.
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

/// Compiles kernels; one thread may use it at a time.
class KernelCompiler {
 public:
  /// Without `optimise`, LLVM selects and allocates as fast as it can: a third of the time, slower code.
  explicit KernelCompiler(const CpuTarget& target, bool optimise = true);
  ~KernelCompiler();
  KernelCompiler(const KernelCompiler&) = delete;
  KernelCompiler& operator=(const KernelCompiler&) = delete;

  /// Returns an object whose one global symbol is `symbol`, of type KernelFunction.
  KernelObject compile(const tile::Kernel& kernel, const std::string& symbol);
  std::string optimised_ir(const tile::Kernel& kernel, const std::string& symbol);
  std::string assembly(const tile::Kernel& kernel, const std::string& symbol);

  /// Returns one of these texts with the tile values of its lines: the assembly, or else the optimised IR.
  TracedText traced(const tile::Kernel& kernel, const std::string& symbol, bool assembly);

  /// Returns an object with the functions of ProductCode (product.h), or their text: optimised LLVM IR or
  /// assembly.
  std::string compile_product();
  std::string product_text(bool assembly);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns what the machine code depends on besides the kernel: LLVM's version and this code generator's
/// sources.
std::string_view compiler_identity();

}  // namespace rewire::codegen::cpu

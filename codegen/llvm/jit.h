// Compiles tile kernels to machine code of this CPU: tile IR -> LLVM IR -> ORC. Kernels of one structure
// compile once; modules compile in parallel; objects are kept in the kernel cache on disk.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/llvm/product.h"
#include "codegen/llvm/traced_text.h"
#include "codegen/tile/tile.h"

namespace rewire::codegen {

/// Runs instances [begin, end) of a kernel. `arguments`: one pointer per Kernel::arguments entry, each to
/// its element 0, 64-byte aligned buffers. `scratch`: CompiledKernel::scratch_bytes bytes, 64-byte aligned,
/// private to the calling thread.
using KernelFunction = void (*)(void* const* arguments, std::int64_t begin, std::int64_t end, void* scratch);

struct CompiledKernel {
  KernelFunction function = nullptr;
  std::int64_t scratch_bytes = 0;
};

struct JitOptions {
  std::string cache_directory;  // "" : no cache on disk
  int compile_threads = 2;
  std::string cpu;       // "": the host
  bool optimise = true;  // false: LLVM's quickest code generation
};

struct JitStatistics {
  int kernels = 0, unique = 0, cache_hits = 0, compiled = 0;
  double seconds = 0;
};

class CpuJit {
 public:
  explicit CpuJit(JitOptions options);
  ~CpuJit();
  CpuJit(const CpuJit&) = delete;
  CpuJit& operator=(const CpuJit&) = delete;

  /// Returns one function per kernel, in order. They live as long as the CpuJit. `with_product`: also makes
  /// what product() returns.
  std::vector<CompiledKernel> compile(std::span<const tile::Kernel> kernels, bool with_product = false);
  /// Returns the product's code. It is made at its first use and kept on disk as kernels are, but not
  /// counted in the statistics. Lives as long as the CpuJit.
  const ProductCode& product();
  const JitStatistics& statistics() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns whether products should be CpuJit::product()'s where no timing decides. On CPUs with AVX-512 the
/// library's are taken, since ours were measured on none.
bool prefers_own_products();

/// Returns the text of `rewire dump --stage llvm|asm` for one kernel: optimised LLVM IR, host assembly.
std::string emit_llvm(const tile::Kernel& kernel);
std::string emit_assembly(const tile::Kernel& kernel);
/// Returns these texts with the tile values of their lines.
TracedText trace_llvm(const tile::Kernel& kernel);
TracedText trace_assembly(const tile::Kernel& kernel);
/// Returns these texts of the product's functions (product.h).
std::string emit_product_llvm();
std::string emit_product_assembly();
/// Returns "sapphirerapids (512-bit vectors)".
std::string host_cpu_description();

}  // namespace rewire::codegen

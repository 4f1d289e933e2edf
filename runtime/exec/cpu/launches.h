// A compiled program as the executor runs it: waves of tasks. The launches of a wave touch no memory that
// another of them writes, so all their tasks run in parallel; between waves all threads wait. The cut of a
// launch into tasks depends on shapes alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "codegen/library/gemm.h"
#include "codegen/llvm/jit.h"
#include "codegen/program.h"
#include "runtime/exec/cpu/host_op.h"
#include "runtime/exec/memory_plan.h"

namespace rewire::runtime {

/// Rounds bytes up to whole cache lines, the unit of shared memory and scratch.
constexpr std::int64_t in_lines(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// Runs task `index` of a launch. Tasks are independent except for barriers: all tasks before such an index
/// are done before the first from it on begins.
class CpuLaunch {
 public:
  virtual ~CpuLaunch() = default;
  virtual std::int64_t tasks() const = 0;
  virtual std::vector<std::int64_t> barriers() const { return {}; }  // ascending, each in [0, tasks]
  virtual std::int64_t scratch_bytes() const = 0;                    // per thread
  /// The bytes that its tasks share while it runs, 64-byte aligned; lent before any task.
  virtual std::int64_t shared_bytes() const { return 0; }
  virtual void lend(std::byte* /*shared*/) {}
  /// The buffers that alone decide what the tasks before the first barrier leave in the shared memory; these
  /// tasks read no others. While both stay unchanged, the tasks need not run again.
  virtual std::vector<std::int32_t> packs() const { return {}; }
  /// Called once before the tasks of each run.
  virtual void bind(const BufferPointers& buffers) = 0;
  virtual void run(std::int64_t task, void* scratch) const = 0;
};

/// Returns true if a buffer holds the same in every run. `fixed_state`: no program writes the state.
bool is_fixed(const codegen::Program& program, std::int32_t buffer, bool fixed_state);

/// Returns true if the product's code can compute the launch (product_launch.h, convolution_product.h).
bool runs_product(const codegen::Program& program, const codegen::Launch& launch);

/// The code that computes the products and convolutions of a program.
struct ProductsBy {
  const codegen::ProductCode* code = nullptr;  // null: libraries compute all
  std::vector<bool> ours = {};                 // by launch: `code` computes it; needs runs_product()
};

/// Makes the launches in the program's order. `kernels` holds one entry per KernelLaunch, in order.
std::vector<std::unique_ptr<CpuLaunch>> make_cpu_launches(const codegen::Program& program,
                                                          const std::vector<codegen::CompiledKernel>& kernels,
                                                          const ProductsBy& products = {},
                                                          bool fixed_state = false);

/// Returns launch indices in order, cut into waves. A new wave begins where a launch touches memory that an
/// earlier one of the wave writes, or writes what it reads.
std::vector<std::vector<int>> make_waves(const codegen::Program& program, const MemoryPlan& plan);

}  // namespace rewire::runtime

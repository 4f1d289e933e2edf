// The GEMMs of a program, and how fast this machine does each.
#pragma once

#include <vector>

#include "bench/timing.h"
#include "codegen/llvm/product.h"
#include "codegen/program.h"
#include "runtime/device/thread_pool.h"

namespace rewire::bench {

/// GEMMs of one shape and one memory layout, which is all that their speed depends on.
struct GemmCount {
  codegen::GemmLaunch launch;  // buffers 0 a, 1 b, 2 c, 3 bias; offsets 0
  ir::DType dtype = ir::DType::f32;
  int count = 0;     // launches of it in the program
  double flops = 0;  // of one
};

std::vector<GemmCount> gemms_of(const codegen::Program& program);

struct GemmTime {   // of one launch, the operands as near as they fit
  Seconds own;      // by code of our own, on the pool
  Seconds cut;      // by the library, in parts on the pool
  Seconds library;  // one call, threaded by oneDNN itself
};

GemmTime measure_gemm(const GemmCount& gemm, runtime::ThreadPool& pool, const codegen::ProductCode& product);

}  // namespace rewire::bench

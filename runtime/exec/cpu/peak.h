// What the multiply-adds of all threads together reach at best, in f32: the ceiling of every product on a CPU.
#pragma once

#include "codegen/llvm/product.h"
#include "runtime/device/thread_pool.h"

namespace rewire::runtime {

/// Operations a second (a multiply-add is two), by vectors that never leave the registers: the best of runs of together some
/// 0.2 s.
double multiply_add_peak(const codegen::ProductCode& code, ThreadPool& pool);

}  // namespace rewire::runtime

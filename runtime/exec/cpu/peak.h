// The best rate of f32 multiply-adds on all threads together, the ceiling of every product on a CPU.
#pragma once

#include "codegen/llvm/product.h"
#include "runtime/device/thread_pool.h"

namespace rewire::runtime {

/// Measures operations a second (a multiply-add is two) on vectors that never leave the registers: the best
/// of several runs, some 0.2 s together.
double multiply_add_peak(const codegen::ProductCode& code, ThreadPool& pool);

}  // namespace rewire::runtime

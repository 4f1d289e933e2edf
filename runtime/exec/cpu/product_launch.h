// A matrix product by our own code (codegen/llvm/product.h). Shape alone cuts c into blocks, each a task
// that runs through k in order, so that no sum depends on the threads. Operands are packed as the code reads
// them. b is packed once for all tasks if many read it (weights) or it is the same in every run, else by
// each task for itself. a is packed only if its rows do not lie along k.
#pragma once

#include <memory>

#include "codegen/llvm/product.h"
#include "codegen/program.h"
#include "runtime/exec/cpu/launches.h"

namespace rewire::runtime {

/// Returns true if our code computes the launch: f32 throughout, no matrix strided both ways, and large
/// enough to pay for packing.
bool takes_product(const codegen::Program& program, const codegen::GemmLaunch& launch);
/// Makes a launch that takes_product() accepts. `code` must outlive it. `fixed_b`: b is the same in every
/// run. That changes the packing and the cut of c, but no bit: evaluation alone gives the same bits as
/// evaluation in a run of training.
std::unique_ptr<CpuLaunch> make_product_launch(const codegen::GemmLaunch& launch,
                                               const codegen::ProductCode& code, bool fixed_b = false);

}  // namespace rewire::runtime

// A matrix product by code of our own (codegen/llvm/product.h): cut into blocks of c by shape alone, each a task that runs
// through k in order, so that no sum depends on who computes what. Operands are packed as the code reads them: b once for all
// tasks where many of them read it (weights) or it is the same in every run, else by each task for itself; a only where its
// rows do not lie along k.
#pragma once

#include <memory>

#include "codegen/llvm/product.h"
#include "codegen/program.h"
#include "runtime/exec/cpu/launches.h"

namespace rewire::runtime {

/// Whether our code computes it: f32 throughout, no matrix strided both ways, and large enough to pay for packing.
bool takes_product(const codegen::Program& program, const codegen::GemmLaunch& launch);
/// Of a launch that it takes. `code` must outlive it. `fixed_b`: b is the same in every run. That changes who packs it and how
/// c is cut, and no bit: what a run of training evaluates, evaluation alone computes to the same bits.
std::unique_ptr<CpuLaunch> make_product_launch(const codegen::GemmLaunch& launch,
                                               const codegen::ProductCode& code, bool fixed_b = false);

}  // namespace rewire::runtime

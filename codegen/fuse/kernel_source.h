// Lists the ops that each kernel of a program computes, by which a kernel is cut out of its program.
#pragma once

#include <string>
#include <vector>

#include "codegen/program.h"
#include "ir/module.h"

namespace rewire::codegen {

struct KernelSource {
  tile::Kernel kernel;   // as in its launch, before kernels that differ in numbers share code
  std::vector<int> ops;  // body indices
};
struct KernelSources {
  ir::Module prepared;  // the function as it was grouped (prepare.h); `ops` index its body
  std::vector<KernelSource>
      kernels;  // in the order of their launches, without those that copy parts of a concat
};

/// Returns the kernels of a module's first function after ir::run_pipeline. `options`: those of its
/// lowering.
KernelSources kernel_sources(const ir::Module& module, const FuseOptions& options);

}  // namespace rewire::codegen

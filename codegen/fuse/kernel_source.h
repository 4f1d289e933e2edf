// Which ops each kernel of a program computes: what a kernel is cut out of its program by.
#pragma once

#include <string>
#include <vector>

#include "codegen/program.h"
#include "ir/module.h"

namespace rewire::codegen {

struct KernelSource {
  tile::Kernel kernel;   // as its launch has it, before kernels that differ in numbers share code
  std::vector<int> ops;  // body indices
};
struct KernelSources {
  ir::Module prepared;  // the function as it was grouped (prepare.h); `ops` count in it
  std::vector<KernelSource>
      kernels;  // in the order of their launches, without those that copy parts of a concat
};

/// Of a function behind ir::run_pipeline, the module's first, by the options that it is lowered with.
KernelSources kernel_sources(const ir::Module& module, const FuseOptions& options);

}  // namespace rewire::codegen

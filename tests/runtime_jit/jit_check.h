// Runs function "main" of a module on the compiling engine, from and to the evaluator's tensors.
#pragma once

#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"
#include "runtime/exec/engine.h"

namespace rewire::testing {

struct JitRun {
  std::vector<ir::Tensor> results;  // in the order of Function::results
  std::map<std::string, ir::Tensor, std::less<>> state;
  runtime::EngineReport report;
};

/// `state` is written before, read after. What is not fused is compiled without optimisation. Memory is
/// poisoned and the gaps behind buffers are checked.
JitRun run_jit(const ir::Module& module, const std::vector<ir::Tensor>& inputs, const ir::EvalState& state,
               bool fuse, int threads = 1, bool tables = true);

}  // namespace rewire::testing

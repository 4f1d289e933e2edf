// Ops that are no kernels, on a CPU: those that a library computes have a row in op_calls.cpp, all others run
// by the evaluator's own function on one thread, with a line in the log.
#pragma once

#include <memory>

#include "runtime/exec/cpu/launches.h"

namespace rewire::runtime {

/// An op by a library. The launch says which scratch it needs, and how it is cut into tasks: by shapes alone.
struct CpuOp {
  ir::Opcode code;
  bool (*supports)(const codegen::Program& program, const codegen::OpCall& call);
  std::unique_ptr<CpuLaunch> (*make)(const codegen::OpCall& call);
};

/// By the first row that takes the call; null where none does.
std::unique_ptr<CpuLaunch> make_library_launch(const codegen::Program& program, const codegen::OpCall& call);
std::unique_ptr<CpuLaunch> make_op_launch(const codegen::Program& program, const codegen::OpCall& call);

}  // namespace rewire::runtime

// Ops that are not kernels, on a CPU. An op that a library computes has a row in op_calls.cpp. All others
// run by the evaluator's function on one thread, with a line in the log.
#pragma once

#include <memory>

#include "runtime/exec/cpu/launches.h"

namespace rewire::runtime {

/// An op that a library computes. Its launch reports its scratch and its cut into tasks, by shapes alone.
struct CpuOp {
  ir::Opcode code;
  bool (*supports)(const codegen::Program& program, const codegen::OpCall& call);
  std::unique_ptr<CpuLaunch> (*make)(const codegen::OpCall& call);
};

/// Makes the launch by the first row that takes the call; null if none does.
std::unique_ptr<CpuLaunch> make_library_launch(const codegen::Program& program, const codegen::OpCall& call);
std::unique_ptr<CpuLaunch> make_op_launch(const codegen::Program& program, const codegen::OpCall& call);

}  // namespace rewire::runtime

// Ops that are not kernels, on a GPU. An op that a library computes has a row in op_calls.cpp. All others
// are computed on the host, by the CPU's library for them or by the evaluator's function.
#pragma once

#include <memory>
#include <string>

#include "runtime/exec/cuda/launches.h"

namespace rewire::runtime {

/// An op that a library computes.
struct CudaOp {
  ir::Opcode code;
  /// `launch` is the call's index in the program. Null if the library has none for it. The launch says its
  /// own workspace.
  std::unique_ptr<CudaLaunch> (*make)(const codegen::Program& program, std::size_t launch,
                                      CudaLibraries& libraries);
};

/// Logs, once for each kind of op, that the host computes it.
void tell_of_host(const ir::Op& op, const std::string& why);

std::unique_ptr<CudaLaunch> make_op_launch(const codegen::Program& program, std::size_t launch,
                                           CudaLibraries& libraries, HostFailure& failure);

}  // namespace rewire::runtime

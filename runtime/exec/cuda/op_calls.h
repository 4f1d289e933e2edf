// Ops that are no kernels, on a GPU: those that a library computes have a row in op_calls.cpp, all others go
// out to the host, by the library that a CPU has for them or the evaluator's own function, and back.
#pragma once

#include <memory>
#include <string>

#include "runtime/exec/cuda/launches.h"

namespace rewire::runtime {

/// An op by a library.
struct CudaOp {
  ir::Opcode code;
  /// `launch`: the call's index in the program. Null where the library has none for it. Its workspace is the
  /// launch's to say.
  std::unique_ptr<CudaLaunch> (*make)(const codegen::Program& program, std::size_t launch,
                                      CudaLibraries& libraries);
};

/// Writes into the log, once for each kind of op, that the host computes it.
void tell_of_host(const ir::Op& op, const std::string& why);

std::unique_ptr<CudaLaunch> make_op_launch(const codegen::Program& program, std::size_t launch,
                                           CudaLibraries& libraries, HostFailure& failure);

}  // namespace rewire::runtime

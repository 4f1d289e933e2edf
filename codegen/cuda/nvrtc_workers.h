// Many texts to machine code: by worker processes, each with an NVRTC of its own
// (codegen/cuda/nvrtc_worker.h), or in this process where one is enough or there is no worker to start. The
// machine code is the same.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "codegen/cuda/nvrtc.h"

namespace rewire::codegen::cuda {

struct CompileJob {
  std::string name;  // of the kernel, for messages
  std::string text;  // prelude and kernels
};

struct CompileRequest {
  int arch = 90;
  int processes = 1;  // at most; 1: this one
  /// Called on the calling thread with each answer as it comes, in any order.
  std::function<void(std::size_t job, Compiled answer)> done;
  /// What a reader of the debug log, and what every user, should hear; one line.
  std::function<void(const std::string&)> debug = [](const std::string&) {}, warn = debug;
};

/// Compiles every text, the longest first, one at a time a process. A worker that ends while it compiles is
/// warned of and its text given to another; where that ends too, RuntimeFailure names the kernel and the last
/// line the worker wrote. Whatever happens, no process and no descriptor stays behind. UserError and
/// InternalError as try_compile().
void compile_all(std::span<const CompileJob> jobs, const CompileRequest& request);

/// The program of the workers: $REWIRE_NVRTC_WORKER, else ../libexec/rewire/nvrtc-worker from where this
/// program's file stands, as the link `self` has it; "" where that cannot be read.
std::string nvrtc_worker_program(const std::string& self = "/proc/self/exe");

}  // namespace rewire::codegen::cuda

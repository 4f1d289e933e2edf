// Compiles many texts to machine code: by worker processes, each with an NVRTC of its own
// (codegen/cuda/nvrtc_worker.h), or in this process if one is enough or no worker can be started. The
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
  int processes = 1;  // at most; 1: this process
  /// Called on the calling thread with each answer as it comes, in any order.
  std::function<void(std::size_t job, Compiled answer)> done;
  /// Called with one line: `debug` for the debug log, `warn` for every user.
  std::function<void(const std::string&)> debug = [](const std::string&) {}, warn = debug;
};

/// Compiles every text, the longest first, one at a time per process. If a worker ends while it compiles,
/// `warn` is called and another worker gets its text. If that one ends too, RuntimeFailure names the kernel
/// and the last line that the worker wrote. In no case does a process or a descriptor remain. Throws
/// UserError and InternalError as try_compile() does.
void compile_all(std::span<const CompileJob> jobs, const CompileRequest& request);

/// Returns the program of the workers: $REWIRE_NVRTC_WORKER, else ../libexec/rewire/nvrtc-worker from the
/// folder of this program's file, which the link `self` names; "" if the link cannot be read.
std::string nvrtc_worker_program(const std::string& self = "/proc/self/exe");

}  // namespace rewire::codegen::cuda

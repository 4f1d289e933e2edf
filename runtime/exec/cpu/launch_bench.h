// Times a launch of a CPU's program alone, on memory of its own.
#pragma once

#include <vector>

#include "codegen/program.h"
#include "runtime/device/thread_pool.h"
#include "runtime/exec/cpu/launches.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

class LaunchBench {
 public:
  /// Makes the buffers that the program's launches touch, filled with small numbers of both signs. Throws
  /// InternalError on one that is neither f32 nor bf16.
  LaunchBench(const codegen::Program& program, ThreadPool& pool);

  /// Runs a launch that computes one of the program's; returns the seconds.
  double run(CpuLaunch& launch);
  /// The addresses by buffer; null if no launch touches it.
  const BufferPointers& pointers() const { return pointers_; }

 private:
  ThreadPool& pool_;
  std::vector<HostTensor> memory_;
  BufferPointers pointers_;
  HostTensor shared_, scratch_;
};

}  // namespace rewire::runtime

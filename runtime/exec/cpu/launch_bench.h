// A launch of a CPU's program alone, on memory of its own, as it is timed.
#pragma once

#include <vector>

#include "codegen/program.h"
#include "runtime/device/thread_pool.h"
#include "runtime/exec/cpu/launches.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

class LaunchBench {
 public:
  /// Memory for the buffers that the program's launches touch, filled with small numbers of both signs. InternalError on
  /// one that is neither f32 nor bf16.
  LaunchBench(const codegen::Program& program, ThreadPool& pool);

  /// The seconds of one run of a launch that computes one of the program's.
  double run(CpuLaunch& launch);
  /// By the program's buffers; null where no launch touches one.
  const BufferPointers& pointers() const { return pointers_; }

 private:
  ThreadPool& pool_;
  std::vector<HostTensor> memory_;
  BufferPointers pointers_;
  HostTensor shared_, scratch_;
};

}  // namespace rewire::runtime

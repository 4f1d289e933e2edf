// A whole program on the fake device, launch by launch: kernels by the CUDA printer, matrix products in
// double precision, ops without a kernel on the evaluator's functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/program.h"
#include "runtime/io/host_tensor.h"
#include "tests/cuda_shim/compile.h"
#include "tests/cuda_shim/fake_device.h"

namespace rewire::cuda_shim {

class DeviceProgram {
 public:
  /// Runs the pipeline on a function and lowers it.
  DeviceProgram(const ir::Module& module, std::string_view function, bool fuse,
                const codegen::cuda::DeviceTarget& target, const ir::LeftOut& left_out = {});
  DeviceProgram(codegen::Program program, const codegen::cuda::DeviceTarget& target);

  /// The text of each kernel; kernels of one structure share it, also between programs. To be given to a
  /// HostCompiler before run(): those of many programs at once compile faster.
  const std::vector<KernelText>& kernels() const { return texts_; }
  int launches() const { return static_cast<int>(program_.launches.size()); }

  /// Every buffer has memory of its own, NaN until a launch writes it. Inputs by argument name, results by
  /// result name; `state` by parameter name is read before and written after. RuntimeFailure if an argument
  /// or a constant was written to.
  runtime::TensorMap run(FakeDevice& device, const HostCompiler& compiler, const runtime::TensorMap& inputs,
                         runtime::TensorMap& state) const;

 private:
  struct BoundKernel {
    std::string symbol;
    Grid grid;
  };
  codegen::Program program_;
  std::vector<KernelText> texts_;
  std::vector<BoundKernel> kernels_;  // one per KernelLaunch, in order
};

}  // namespace rewire::cuda_shim

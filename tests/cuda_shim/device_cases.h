// Many modules on the fake device: their kernels are collected first and compiled together, then each is run.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"
#include "tests/cuda_shim/run_program.h"

namespace rewire::cuda_shim {

struct CaseRun {
  runtime::TensorMap results, state;
};

class DeviceCases {
 public:
  explicit DeviceCases(const codegen::cuda::DeviceTarget& target = {}) : target_(target) {}

  /// The pipeline and the lowering of a function with these inputs (in the order of its arguments) and this
  /// state. Returns the number of the case.
  std::size_t add(const ir::Module& module, const std::vector<ir::Tensor>& inputs, const ir::EvalState& state,
                  bool fuse, const std::string& function = "main", const ir::LeftOut& left_out = {});

  /// Compiles what was added, into the build's folder of kernels.
  void compile();
  const CompileReport& report() const { return compiler_->report(); }

  /// From the state that was added: two runs do the same.
  CaseRun run(std::size_t number, const LaunchOptions& options = {}) const;

 private:
  struct Case {
    DeviceProgram program;
    runtime::TensorMap inputs, state;
  };
  codegen::cuda::DeviceTarget target_;
  std::vector<Case> cases_;
  std::unique_ptr<HostCompiler> compiler_;
};

/// The names of the tensors that differ in a bit.
std::vector<std::string> differing(const CaseRun& a, const CaseRun& b);

}  // namespace rewire::cuda_shim

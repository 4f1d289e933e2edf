// A case is a compiled program with what goes into it; see device_cases.h.
#include "tests/cuda_shim/device_cases.h"

#include <algorithm>

#include "tests/cuda_shim/device_engine.h"

namespace rewire::cuda_shim {

std::size_t DeviceCases::add(const ir::Module& module, const std::vector<ir::Tensor>& inputs,
                             const ir::EvalState& state, bool fuse, const std::string& function,
                             const ir::LeftOut& left_out) {
  const ir::Function& called = module.function(function);
  runtime::TensorMap given, start;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    given.emplace(called.arguments[i].name, runtime::to_host(inputs[i]));
  for (const auto& [name, tensor] : state.tensors) start.emplace(name, runtime::to_host(tensor));
  ir::Module trained = module;
  trained.function(function).trains = state.training;
  cases_.push_back(
      {DeviceProgram(trained, function, fuse, target_, left_out), std::move(given), std::move(start)});
  return cases_.size() - 1;
}

void DeviceCases::compile() {
  compiler_ =
      std::make_unique<HostCompiler>(kernel_folder(), codegen::cuda::prelude(), CompileOptions{2, false});
  std::vector<KernelText> kernels;
  for (const Case& one : cases_)
    kernels.insert(kernels.end(), one.program.kernels().begin(), one.program.kernels().end());
  compiler_->add(kernels);
}

CaseRun DeviceCases::run(std::size_t number, const LaunchOptions& options) const {
  const Case& one = cases_.at(number);
  FakeDevice device(options);
  CaseRun run;
  for (const auto& [name, tensor] : one.state) run.state.emplace(name, tensor.clone());
  run.results = one.program.run(device, *compiler_, one.inputs, run.state);
  return run;
}

std::vector<std::string> differing(const CaseRun& a, const CaseRun& b) {
  std::vector<std::string> names;
  const auto compare = [&](const runtime::TensorMap& x, const runtime::TensorMap& y) {
    for (const auto& [name, tensor] : x) {
      if (!std::ranges::equal(tensor.bytes(), y.at(name).bytes())) names.push_back(name);
    }
  };
  compare(a.results, b.results);
  compare(a.state, b.state);
  return names;
}

}  // namespace rewire::cuda_shim

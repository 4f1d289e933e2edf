// Every pass of the pipeline and every rewrite of the lowering left out, one after the other, in CUDA text on
// the host: a training step computes the evaluator's numbers without it as with it, results and state.
#include "tests/cuda_shim/device_cases.h"
#include "tests/left_out/networks.h"
#include "tests/support/catch.h"

namespace rewire::testing::left_out {
namespace {

/// As run_step() has it.
runtime::TensorMap all_of(const cuda_shim::CaseRun& run) {
  runtime::TensorMap all;
  for (const auto& [name, tensor] : run.results) all.emplace(name, tensor.clone());
  for (const auto& [name, tensor] : run.state) all.emplace("state " + name, tensor.clone());
  return all;
}

TEST_CASE("A training step in CUDA text computes the same without any one pass or rewrite") {
  const std::vector<Network> all = networks();
  cuda_shim::DeviceCases cases;
  for (const Network& network : all) {
    std::vector<ir::Tensor> inputs;
    for (const ir::Argument& argument : network.module.function("step").arguments)
      inputs.push_back(runtime::to_double(network.inputs.at(argument.name)));
    ir::EvalState state;
    state.training = true;
    for (const auto& [name, tensor] : network.state) state.tensors.emplace(name, runtime::to_double(tensor));
    cases.add(network.module, inputs, state, true, "step");
    for (const Row& row : rows()) cases.add(network.module, inputs, state, true, "step", left_out_by(row));
  }
  cases.compile();
  std::size_t number = 0;
  for (const Network& network : all) {
    INFO(network.name);
    check_numbers(network, all_of(cases.run(number++)));
    for (const Row& row : rows()) {
      INFO("without " << row.name);
      check_numbers(network, all_of(cases.run(number++)));
    }
  }
}

}  // namespace
}  // namespace rewire::testing::left_out

// Every pass of the pipeline and every rewrite of the lowering left out, one after the other, in CUDA text on
// the host: a training step computes the evaluator's numbers without it as with it, results and state.
#include "codegen/lowering_steps.h"
#include "models/model.h"
#include "programs/programs.h"
#include "runtime/verify/perturbed_state.h"
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

TEST_CASE("Maps that sums take over compute the same bits in CUDA text") {
  ir::Selection options{"resnetv2"};
  options.set("depths", ir::Doubles{1, 1}).set("width", 20).set("image", 12);
  ir::Module module = models::build(options, 5);
  programs::add_step_program(module, {});
  const ir::Function& step = module.function("step");
  std::vector<ir::Tensor> inputs;
  for (const ir::Argument& argument : step.arguments)
    inputs.push_back(runtime::random_argument(module, step, argument, 7));
  ir::EvalState state;
  state.training = true;
  for (auto& [name, tensor] : runtime::perturbed_state(module, {}, 7)) state.tensors.emplace(name, tensor);
  cuda_shim::DeviceCases cases;
  cases.add(module, inputs, state, true, "step");
  cases.add(module, inputs, state, true, "step", {std::string(codegen::kAppendMaps)});
  cases.compile();
  CHECK(cuda_shim::differing(cases.run(0), cases.run(1)).empty());
}

}  // namespace
}  // namespace rewire::testing::left_out

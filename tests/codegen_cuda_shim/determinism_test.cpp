// The same bits from every run of a training step, whatever the order of threads and blocks.
#include <algorithm>
#include <cmath>

#include "codegen/cuda/emit.h"
#include "models/model.h"
#include "programs/programs.h"
#include "runtime/network/initialise.h"
#include "tests/cuda_shim/device_engine.h"
#include "tests/support/catch.h"

namespace rewire::cuda_shim {
namespace {

constexpr std::int64_t kBatch = 3;

ir::Module small_vit() {
  ir::Selection options{"vit"};
  options.set("dim", 20).set("depth", 2).set("heads", 2).set("patch", 14);
  options.set("dropout", 0.1).set("drop_path", 0.2);
  ir::Module module = models::build(options, kBatch);
  programs::add_step_program(module, {});
  return module;
}

/// Results of two steps, and the state after them.
std::vector<runtime::TensorMap> two_steps(const ir::Module& module, HostCompiler& compiler,
                                          std::uint64_t order_seed) {
  DeviceEngineOptions options;
  options.launch = order_of_seed(order_seed);
  const auto engine = make_device_engine(module, compiler, options);
  for (const auto& [name, tensor] : runtime::initialise(module, 11)) engine->write_state(name, tensor);
  ir::Tensor image({ir::DType::f32, {kBatch, 1, 28, 28}});
  for (std::size_t i = 0; i < image.data.size(); ++i) image.data[i] = std::sin(1.7 * static_cast<double>(i));
  runtime::TensorMap inputs;
  inputs.emplace("image", runtime::to_host(image));
  inputs.emplace("label", runtime::to_host(ir::Tensor({ir::DType::i64, {kBatch}}, {1, 7, 0})));
  std::vector<runtime::TensorMap> outcome;
  for (int step = 0; step < 2; ++step) outcome.push_back(engine->run("step", inputs));
  for (const ir::Parameter& parameter : module.parameters)
    outcome[1].emplace("state " + parameter.name, engine->read_state(parameter.name));
  return outcome;
}

TEST_CASE("two runs of a step, and any order of threads, give the same bits") {
  const ir::Module module = small_vit();
  HostCompiler compiler(kernel_folder(), codegen::cuda::prelude());
  const auto first = two_steps(module, compiler, 0);
  CHECK(first[0].at("finite").as<std::uint8_t>()[0] == 1);
  CHECK(first[1].at("loss").as<float>()[0] != first[0].at("loss").as<float>()[0]);
  for (const std::uint64_t order_seed : {0, 1, 2}) {
    const auto again = two_steps(module, compiler, order_seed);
    for (std::size_t step = 0; step < first.size(); ++step) {
      for (const auto& [name, tensor] : first[step]) {
        INFO("order " << order_seed << ", step " << step << ", " << name);
        CHECK(std::ranges::equal(tensor.bytes(), again[step].at(name).bytes()));
      }
    }
  }
}

}  // namespace
}  // namespace rewire::cuda_shim

#include "tests/plugins/compiled.h"

#include <algorithm>

#include "models/model.h"
#include "programs/programs.h"
#include "runtime/exec/engine.h"
#include "tests/plugins/strategy.h"

namespace rewire::test {

runtime::TensorMap compiled_gradients(const std::vector<std::string>& specs, std::int64_t step) {
  ir::Selection options{"vit"};
  options.set("dim", 20).set("depth", 2).set("heads", 2).set("patch", 14);
  const std::int64_t batch = 3;
  ir::Module module = rewritten(models::build(options, batch), specs);
  programs::add_grad_program(module, {});
  const auto engine = runtime::make_jit_engine(module);
  runtime::TensorMap state = started(module, specs, 5);
  for (auto& [name, tensor] : state) {
    if (name == "train.step") tensor.as<std::int64_t>()[0] = step;
    engine->write_state(name, tensor);
  }
  runtime::TensorMap inputs;
  inputs.emplace("image", runtime::to_host(sample({ir::DType::f32, {batch, 1, 28, 28}})));
  runtime::TensorMap results = engine->run("forward", inputs);
  inputs.emplace("label", runtime::to_host(ir::Tensor({ir::DType::i64, {batch}}, {1, 7, 0})));
  results.merge(engine->run("grad", inputs));
  return results;
}

std::vector<std::string> differing(const runtime::TensorMap& a, const runtime::TensorMap& b) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end() || !std::ranges::equal(tensor.bytes(), other->second.bytes())) names.push_back(name);
  }
  for (const auto& [name, tensor] : b) {
    if (!a.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace rewire::test

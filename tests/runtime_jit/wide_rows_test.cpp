// Logits too wide to be held: chunks of rows, whose weight gradients the products add up in one place.
#include <cmath>
#include <random>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "runtime/exec/engine.h"
#include "tests/support/accuracy.h"
#include "tests/support/catch.h"

using namespace rewire;

TEST_CASE("a head of 70001 words holds a part of its logits, and has the evaluator's loss and gradients") {
  constexpr std::int64_t kRows = 242, kWidth = 60, kWords = 70001;  // 68 MB of logits
  ir::Module module;
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const ir::Value x = b.argument("x", {ir::DType::f32, {11, 22, kWidth}});
  const auto weight = [&](const std::string& name, ir::Shape shape) {
    ir::Parameter parameter;
    parameter.name = name;
    parameter.type = {ir::DType::f32, std::move(shape)};
    return b.param(module.add_parameter(std::move(parameter)).name);
  };
  const ir::Value matrix = weight("matrix", {kWords, kWidth}), bias = weight("bias", {kWords});
  const ir::Value labels = b.argument("labels", {ir::DType::i32, {kRows}});
  const ir::Value logits = b.reshape(b.linear(x, matrix, bias), {kRows, kWords});
  const ir::Value each = b.emit(ir::Opcode::cross_entropy, {logits, labels}, {{"label_smoothing", 0.1}});
  const ir::Value loss = b.div(b.reshape(b.sum(each, {0}), {}), static_cast<double>(kRows));
  b.result("loss", loss);
  b.result("each", each);
  b.result("best", b.emit(ir::Opcode::argmax, {logits}, {{"axis", std::int64_t{1}}}));
  const std::vector<ir::Value> gradients = differentiate(b, loss, std::array{x, matrix, bias});
  b.result("dx", gradients[0]);
  b.result("dmatrix", gradients[1]);
  b.result("dbias", gradients[2]);

  std::mt19937 random(17);
  std::normal_distribution<float> normal(0, 0.3F);
  runtime::TensorMap inputs;
  std::vector<ir::Tensor> doubles;
  for (const ir::Argument& argument : main.arguments) {
    runtime::HostTensor tensor(main.type(argument.value));
    if (argument.name == "labels") {
      for (std::int32_t& label : tensor.as<std::int32_t>())
        label = static_cast<std::int32_t>(random() % kWords);
    } else {
      for (float& value : tensor.as<float>()) value = normal(random);
    }
    doubles.push_back(to_double(tensor));
    inputs.emplace(argument.name, std::move(tensor));
  }
  runtime::TensorMap weights;
  ir::EvalState state;
  for (const ir::Parameter& parameter : module.parameters) {
    runtime::HostTensor tensor(parameter.type);
    for (float& value : tensor.as<float>()) value = normal(random);
    state.tensors.emplace(parameter.name, to_double(tensor));
    weights.emplace(parameter.name, std::move(tensor));
  }
  runtime::JitEngineOptions options;
  options.threads = 2;
  options.check_memory = true;
  const auto engine = runtime::make_jit_engine(module, options);
  for (const auto& [name, tensor] : weights) engine->write_state(name, tensor);
  const runtime::TensorMap got = engine->run("main", inputs);
  constexpr std::int64_t kMegabyte = 1 << 20;
  CHECK(engine->report().arena_bytes < 70 * kMegabyte);  // two chunks of 32 MiB at most

  const std::vector<ir::Tensor> wanted = evaluate(module, module.functions[0], doubles, state);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string& name = module.functions[0].results[i].name;
    CAPTURE(name);
    CHECK(testing::scaled_error(wanted[i], to_double(got.at(name)), 0) < 5e-6);
  }
}

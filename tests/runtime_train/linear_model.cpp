// See linear_model.h.
#include "tests/runtime_train/linear_model.h"

#include <cmath>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::runtime {
namespace {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

Value drop(Builder& b, Value x, double rate) {
  for (std::string_view name : {"rng.seed", "train.step"}) {
    ir::Parameter p;
    p.name = name;
    p.type = {DType::i64, {}};
    p.trainable = p.decay = false;
    b.module().add_parameter(p);
  }
  Value training = b.emit(Opcode::is_training, {}, {}, ir::TensorType{DType::i1, {}});
  return b.emit(Opcode::dropout, {x, b.param("rng.seed"), b.param("train.step"), training},
                {{"probability", rate}, {"stream", std::string("drop")}});
}

}  // namespace

ir::Module linear_model(std::int64_t batch, std::int64_t inputs, std::int64_t classes, double dropout) {
  ir::Module module;
  module.name = "linear";
  ir::Parameter w;
  w.name = "w";
  w.type = {DType::f32, {classes, inputs}};
  module.add_parameter(w);
  ir::Parameter bias;
  bias.name = "b";
  bias.type = {DType::f32, {classes}};
  bias.decay = false;
  module.add_parameter(bias);
  ir::Function forward;
  forward.name = "forward";
  Builder b(module, forward);
  Value image = b.argument("image", {DType::f32, {batch, 1, 1, inputs}});
  Value x = b.reshape(image, {batch, inputs});
  if (dropout != 0) x = drop(b, x, dropout);
  b.result("logits", b.linear(x, b.param("w"), b.param("b")));
  module.functions.push_back(std::move(forward));
  return module;
}

ir::Module identity_model(std::int64_t batch, std::int64_t classes) {
  ir::Module module;
  module.name = "identity";
  ir::Function forward;
  forward.name = "forward";
  Builder b(module, forward);
  b.result("logits", b.argument("image", {DType::f32, {batch, classes}}));
  module.functions.push_back(std::move(forward));
  return module;
}

ir::EvalState start(const ir::Module& module, const std::map<std::string, std::vector<double>>& values) {
  ir::EvalState state;
  for (const ir::Parameter& p : module.parameters) {
    ir::Tensor tensor(p.type);
    if (p.init.kind == ir::InitKind::ones) tensor.data.assign(tensor.data.size(), 1);
    state.tensors.emplace(p.name, std::move(tensor));
  }
  for (const auto& [name, data] : values) state.tensors.at(name).data = data;
  return state;
}

std::map<std::string, std::vector<double>> call(const ir::Module& module, const std::string& name,
                                                const std::vector<std::vector<double>>& arguments,
                                                ir::EvalState& state) {
  const ir::Function& function = module.function(name);
  std::vector<ir::Tensor> tensors;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    tensors.emplace_back(function.type(function.arguments.at(i).value), arguments[i]);
  }
  state.training = function.trains;
  const std::vector<ir::Tensor> results = ir::evaluate(module, function, tensors, state);
  std::map<std::string, std::vector<double>> named;
  for (std::size_t i = 0; i < results.size(); ++i) named[function.results[i].name] = results[i].data;
  return named;
}

std::vector<double> numbers(std::size_t n, int k) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = std::sin(12.9898 * static_cast<double>(i + 1) + 78.233 * static_cast<double>(k + 1));
  }
  return values;
}

}  // namespace rewire::runtime

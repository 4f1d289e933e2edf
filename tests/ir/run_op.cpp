// One-op functions for the tests.
#include "tests/ir/run_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "ir/evaluate.h"

namespace rewire::testing {

using namespace rewire::ir;

Tensor f32(Shape shape, std::vector<double> values) {
  return Tensor({DType::f32, std::move(shape)}, std::move(values));
}
Tensor i32(Shape shape, std::vector<double> values) {
  return Tensor({DType::i32, std::move(shape)}, std::move(values));
}
Tensor i64(Shape shape, std::vector<double> values) {
  return Tensor({DType::i64, std::move(shape)}, std::move(values));
}
Tensor i1(Shape shape, std::vector<double> values) {
  return Tensor({DType::i1, std::move(shape)}, std::move(values));
}
Tensor scalar(DType dtype, double value) {
  return Tensor({dtype, {}}, {value});
}

Tensor random_f32(Shape shape, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  Tensor tensor({DType::f32, std::move(shape)});
  for (double& value : tensor.data) value = std::uniform_real_distribution<double>(-2, 2)(engine);
  return tensor;
}

std::vector<Tensor> run(const std::vector<Tensor>& operands,
                        const std::function<std::vector<Value>(Builder&, const std::vector<Value>&)>& build) {
  Module module;
  module.functions.emplace_back();
  Function& function = module.functions[0];
  function.name = "main";
  Builder builder(module, function);
  std::vector<Value> arguments;
  for (const Tensor& operand : operands) {
    arguments.push_back(builder.argument(fmt::format("a{}", arguments.size()), operand.type));
  }
  for (Value result : build(builder, arguments)) {
    builder.result(fmt::format("r{}", function.results.size()), result);
  }
  EvalState state;
  return evaluate(module, function, operands, state);
}

std::vector<Tensor> run_op(Opcode code, const std::vector<Tensor>& operands, Attributes attributes,
                           std::optional<TensorType> requested) {
  return run(operands, [&](Builder& builder, const std::vector<Value>& arguments) {
    return builder.emit_all(code, arguments, attributes, requested);
  });
}

std::vector<double> values_of(Opcode code, const std::vector<Tensor>& operands, Attributes attributes,
                              std::optional<TensorType> requested) {
  return run_op(code, operands, std::move(attributes), std::move(requested)).at(0).data;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

}  // namespace rewire::testing

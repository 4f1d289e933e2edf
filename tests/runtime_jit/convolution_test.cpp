// Convolutions by the library, against the evaluator and on several threads: batches cut into parts that leave a smaller
// last one, weights packed in pieces, gradients of weights added up; nothing may depend on who computes what.
#include <fmt/format.h>

#include <algorithm>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "runtime/exec/engine.h"
#include "tests/support/accuracy.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"

using namespace rewire;
using ir::DType;
using ir::Value;
using runtime::TensorMap;

namespace {

using ConvArguments = std::vector<std::pair<const char*, ir::Shape>>;

/// Of an image of 9 x 7, the gradients of weights are products of slices of the channels, of which the last is smaller;
/// of 19 x 17 they are computed in parts of the batch, of which the last is smaller.
ConvArguments conv_arguments(std::int64_t height, std::int64_t width) {
  return {
      {"x", {7, 100, height, width}}, {"w", {180, 100, 3, 3}}, {"v", {90, 2, 1, 3}}, {"u", {3, 90, 2, 2}}};
}

/// main(x, w, v, u) -> y = conv(conv(conv(x, w)^2, v in groups of two), u), and the gradients of sum y^2.
ir::Module three_convolutions(const ConvArguments& shapes) {
  ir::Module module;
  module.name = "convolutions";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const auto convolve = [&](Value map, Value weight, ir::Ints strides, ir::Ints padding,
                            std::int64_t groups) {
    return b.emit(ir::Opcode::conv2d, {map, weight},
                  {{"strides", std::move(strides)}, {"padding", std::move(padding)}, {"groups", groups}});
  };
  std::vector<Value> arguments;
  for (const auto& [name, shape] : shapes) arguments.push_back(b.argument(name, {DType::f32, shape}));
  const Value first = convolve(arguments[0], arguments[1], {2, 2}, {1, 1}, 1);
  const Value second = convolve(b.mul(first, first), arguments[2], {1, 1}, {0, 1}, 90);
  const Value y = convolve(second, arguments[3], {1, 2}, {1, 0}, 1);
  const Value loss = b.reshape(b.sum(b.mul(y, y), {0, 1, 2, 3}), {});
  const std::vector<Value> gradients = ir::differentiate(b, loss, arguments);
  b.result("y", y);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    b.result(fmt::format("d{}", shapes[i].first), gradients[i]);
  return module;
}

TensorMap conv_inputs(const ConvArguments& shapes) {
  TensorMap tensors;
  for (const auto& [name, shape] : shapes) tensors.emplace(name, testing::noise(shape, 5, name));
  return tensors;
}

TensorMap run_convolutions(const ir::Module& module, const ConvArguments& shapes, int threads) {
  runtime::JitEngineOptions options;
  options.threads = threads;
  options.check_memory = true;
  const auto engine = runtime::make_jit_engine(module, options);
  engine->run(
      "main",
      conv_inputs(shapes));  // what it leaves in scratch and shared memory is poisoned before the next
  return engine->run("main", conv_inputs(shapes));
}

ir::Tensor widened(const runtime::HostTensor& host) {
  ir::Tensor tensor(host.type());
  std::ranges::copy(host.as<float>(), tensor.data.begin());
  return tensor;
}

}  // namespace

TEST_CASE(
    "Convolutions of one pixel with a stride agree with the evaluator, whatever is left over at the edges") {
  const auto [channels, outputs] =
      GENERATE(table<std::int64_t, std::int64_t>({{3, 8}, {4, 4}, {12, 16}, {20, 5}}));
  const auto [height, width, down, across] =
      GENERATE(table<std::int64_t, std::int64_t, std::int64_t, std::int64_t>(
          {{32, 32, 2, 2}, {9, 10, 2, 3}, {7, 4, 3, 1}}));
  CAPTURE(channels, outputs, height, width);
  const ConvArguments shapes = {{"x", {2, channels, height, width}}, {"w", {outputs, channels, 1, 1}}};
  ir::Module module;
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  std::vector<Value> arguments;
  for (const auto& [name, shape] : shapes) arguments.push_back(b.argument(name, {DType::f32, shape}));
  const Value y = b.emit(ir::Opcode::conv2d, arguments,
                         {{"strides", ir::Ints{down, across}}, {"padding", ir::Ints{0, 0}}});
  const Value loss = b.reshape(b.sum(b.mul(y, y), {0, 1, 2, 3}), {});
  const std::vector<Value> gradients = ir::differentiate(b, loss, arguments);
  b.result("y", y);
  b.result("dx", gradients[0]);
  b.result("dw", gradients[1]);
  const TensorMap given = conv_inputs(shapes), got = run_convolutions(module, shapes, 2);
  ir::EvalState state;
  const std::vector<ir::Tensor> expected =
      ir::evaluate(module, main, {widened(given.at("x")), widened(given.at("w"))}, state);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string& name = main.results[i].name;
    CAPTURE(name);
    CHECK(testing::scaled_error(expected[i], widened(got.at(name)), testing::largest_magnitude(expected[i])) <
          1e-5);
  }
}

TEST_CASE(
    "Convolutions and their gradients agree with the evaluator, to the same bits on one, two and three "
    "threads") {
  const auto [height, width] = GENERATE(table<std::int64_t, std::int64_t>({{9, 7}, {19, 17}}));
  CAPTURE(height, width);
  const ConvArguments shapes = conv_arguments(height, width);
  const ir::Module module = three_convolutions(shapes);
  const TensorMap one = run_convolutions(module, shapes, 1);
  for (const int threads : {2, 3}) {
    const TensorMap more = run_convolutions(module, shapes, threads);
    for (const auto& [name, tensor] : one) {
      CAPTURE(name, threads);
      CHECK(std::ranges::equal(tensor.bytes(), more.at(name).bytes()));
    }
  }
  const TensorMap given = conv_inputs(shapes);
  std::vector<ir::Tensor> arguments;
  for (const auto& [name, shape] : shapes) arguments.push_back(widened(given.at(name)));
  ir::EvalState state;
  const std::vector<ir::Tensor> expected = ir::evaluate(module, module.functions[0], arguments, state);
  REQUIRE(expected.size() == 5);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string& name = module.functions[0].results[i].name;
    CAPTURE(name);
    const double largest = testing::largest_magnitude(expected[i]);
    CHECK(testing::scaled_error(expected[i], widened(one.at(name)), largest) < 1e-5);
  }
}

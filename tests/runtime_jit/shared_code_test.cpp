// Layers that differ in a factor and in a random stream: one code, each layer's own numbers.
#include <fmt/format.h>

#include <cmath>

#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "tests/runtime_jit/jit_check.h"
#include "tests/support/catch.h"

using namespace rewire;
using ir::DType;
using ir::Value;

namespace {

constexpr std::int64_t kRows = 7, kWidth = 19;
constexpr int kLayers = 5;

/// x <- (x * factor + a draw) w, layer by layer; every layer's x is a result.
ir::Module layers(bool normal) {
  ir::Module module;
  module.name = "layers";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  Value x = b.argument("x", {DType::f32, {kRows, kWidth}});
  const Value w = b.argument("w", {DType::f32, {kWidth, kWidth}});
  const Value seed = b.argument("seed", {DType::i64, {}}), step = b.argument("step", {DType::i64, {}});
  for (int layer = 0; layer < kLayers; ++layer) {
    const Value draw = b.emit(normal ? ir::Opcode::random_normal : ir::Opcode::random_uniform, {seed, step},
                              {{"stream", fmt::format("layers.{}.noise", layer)}},
                              ir::TensorType{DType::f32, {kRows, kWidth}});
    x = b.matmul(b.add(b.mul(x, 1 - 0.125 * layer), draw), w);
    b.result(fmt::format("x{}", layer), x);
  }
  return module;
}

}  // namespace

TEST_CASE("layers that share code keep their factors and their draws") {
  for (const bool normal : {false, true}) {
    const ir::Module module = layers(normal);
    ir::Tensor x({DType::f32, {kRows, kWidth}}), w({DType::f32, {kWidth, kWidth}});
    for (std::size_t i = 0; i < x.data.size(); ++i)
      x.data[i] = ir::round_to(DType::f32, std::sin(static_cast<double>(i)));
    for (std::size_t i = 0; i < w.data.size(); ++i)
      w.data[i] = ir::round_to(DType::f32, 0.2 * std::cos(3.7 * static_cast<double>(i)));
    const std::vector<ir::Tensor> inputs = {x, w, ir::Tensor({DType::i64, {}}, {41}),
                                            ir::Tensor({DType::i64, {}}, {9})};
    ir::EvalState state;
    const std::vector<ir::Tensor> exact = ir::evaluate(module, module.function("main"), inputs, state);
    const testing::JitRun run = testing::run_jit(module, inputs, {}, true);
    // The first layer's factor is 1 and is gone; all others are one code.
    CHECK(run.report.kernels == kLayers);
    CHECK(run.report.unique_kernels == 2);
    for (int layer = 0; layer < kLayers; ++layer) {
      CAPTURE(normal, layer);
      const auto& got = run.results[static_cast<std::size_t>(layer)].data;
      const auto& wanted = exact[static_cast<std::size_t>(layer)].data;
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        error += (got[i] - wanted[i]) * (got[i] - wanted[i]);
        norm += wanted[i] * wanted[i];
      }
      CHECK(std::sqrt(error / norm) < 1e-6);
    }
  }
}

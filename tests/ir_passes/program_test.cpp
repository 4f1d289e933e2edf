// The passes change no result: random programs under the evaluator, before and after.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/passes/cse.h"
#include "ir/passes/dce.h"
#include "ir/passes/decompose.h"
#include "ir/passes/pass.h"
#include "ir/passes/recompute.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/catch.h"
#include "tests/support/random_program.h"

namespace rewire::ir {
namespace {

/// As of a device with more memory than a step needs.
constexpr RecomputeCost kTrafficFirst = {.flops_per_byte = 20, .worth = 1, .takes_best_chain = true};

/// The results, then the state that is left.
std::vector<Tensor> run(const testing::RandomProgram& program, const Module& module) {
  EvalState state = program.state;
  std::vector<Tensor> outcome = evaluate(module, module.function("main"), program.inputs, state);
  for (auto& [name, tensor] : state.tensors) outcome.push_back(std::move(tensor));
  return outcome;
}

void check_programs(std::uint64_t first, std::uint64_t last, bool gradients) {
  for (std::uint64_t seed = first; seed < last; ++seed) {
    CAPTURE(seed);
    testing::ProgramOptions options;
    options.gradients = gradients;
    const testing::RandomProgram program = testing::random_program(seed, options);
    Module module = program.module;
    module.function("main").trains = program.state.training;
    PassContext context;
    run_pipeline(module, context);
    verify(module);
    CHECK(testing::first_difference(run(program, program.module), run(program, module), 1e-9) == "");
  }
}

}  // namespace

TEST_CASE("The pipeline preserves what random programs compute", "[ir][pipeline]") {
  check_programs(0, 300, false);
}

TEST_CASE("The pipeline preserves the gradients of random programs", "[ir][pipeline]") {
  check_programs(1000, 1300, true);
}

TEST_CASE("recompute never raises the peak and changes no bit", "[ir][pipeline]") {
  int lowered = 0;
  for (std::uint64_t seed = 2000; seed < 2200; ++seed) {
    CAPTURE(seed);
    testing::ProgramOptions options;
    options.gradients = true;
    const testing::RandomProgram program = testing::random_program(seed, options);
    Module module = program.module;
    PassContext context;
    decompose(module, context);
    cse(module, context);
    dce(module, context);
    const Module decomposed = module;
    const std::int64_t before = peak_bytes(module.functions[0]);
    context.recompute = seed % 2 == 0 ? RecomputeCost() : kTrafficFirst;
    recompute(module, context);
    verify(module);
    const std::int64_t after = peak_bytes(module.functions[0]);
    CHECK(after <= before);
    lowered += after < before ? 1 : 0;
    CHECK(testing::first_difference(run(program, decomposed), run(program, module), 0) == "");
  }
  CHECK(lowered > 20);
}

TEST_CASE("where traffic costs more than memory, a stream is kept and not added up again", "[ir][pipeline]") {
  // Per layer: x -> LN -> fc -> x + f, with f in bf16, so that holding f in the place of x frees half of it.
  // Backward reads x - mean. From the last x that is held it takes adds of every f since; from its own, none.
  const auto adds_again = [](const RecomputeCost& cost) {
    constexpr std::int64_t rows = 64, dim = 32, layers = 6;
    Module module;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (const auto& [name, shape] : {std::pair{"norm", Shape{dim}}, std::pair{"fc", Shape{dim, dim}}}) {
        Parameter parameter;
        parameter.name = fmt::format("{}{}", name, layer);
        parameter.type = {DType::f32, shape};
        module.add_parameter(parameter);
      }
    }
    Function& function = module.functions.emplace_back();
    function.name = "step";
    Builder b(module, function);
    Value x = b.argument("x", {DType::f32, {rows, dim}});
    std::vector<Value> weights;
    const auto weight = [&](const char* name, std::int64_t layer) {
      weights.push_back(b.param(fmt::format("{}{}", name, layer)));
      return weights.back();
    };
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const Value y = b.emit(Opcode::layer_norm, {x, weight("norm", layer)});
      const Value f = b.linear(b.cast(y, DType::bf16), b.cast(weight("fc", layer), DType::bf16));
      b.set_location("stream");
      x = b.add(x, b.cast(f, DType::f32));
      b.set_location("");
    }
    const Value loss = b.reshape(b.mean(x, {0, 1}), {});
    for (Value gradient : differentiate(b, loss, weights))
      b.result(fmt::format("g{}", gradient.id), gradient);
    PassContext context;
    context.recompute = cost;
    run_pipeline(module, context);
    return std::ranges::count_if(module.functions[0].body, [](const Op& op) {
      return op.code == Opcode::add && op.location == "stream.recomputed";
    });
  };
  CHECK(adds_again({}) > 1);
  CHECK(adds_again(kTrafficFirst) == 1);  // the first layer's, from the argument, which is there anyway
}

TEST_CASE("recompute leaves of each layer's norm and activation only what backward cannot have again",
          "[ir][pipeline]") {
  // Per layer: x -> LN -> fc1 -> gelu -> fc2 -> x + f. Backward needs xhat (or what it comes from), fc1's
  // output and the row statistics; LN's output, gelu's output and its slope are cheap chains from those.
  constexpr std::int64_t rows = 64, dim = 32, hidden = 128, layers = 6;
  Module module;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (const auto& [name, shape] : {std::pair{"norm", Shape{dim}}, std::pair{"fc1", Shape{hidden, dim}},
                                      std::pair{"fc2", Shape{dim, hidden}}}) {
      Parameter parameter;
      parameter.name = fmt::format("{}{}", name, layer);
      parameter.type = {DType::f32, shape};
      module.add_parameter(parameter);
    }
  }
  Function function;
  function.name = "step";
  module.functions.push_back(function);
  Builder b(module, module.functions[0]);
  Value x = b.argument("x", {DType::f32, {rows, dim}});
  std::vector<Value> weights;
  const auto weight = [&](const char* name, std::int64_t layer) {
    weights.push_back(b.param(fmt::format("{}{}", name, layer)));
    return weights.back();
  };
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const Value y = b.emit(Opcode::layer_norm, {x, weight("norm", layer)});
    const Value h = b.emit(Opcode::gelu, {b.linear(y, weight("fc1", layer))});
    x = b.add(x, b.linear(h, weight("fc2", layer)));
  }
  const Value loss = b.reshape(b.mean(b.mul(x, x), {0, 1}), {});
  for (Value gradient : differentiate(b, loss, weights)) {
    b.result(fmt::format("g{}", gradient.id), gradient);
  }
  PassContext context;
  run_pipeline(module, context);
  const std::int64_t xhat = rows * dim * 4, pre_activation = rows * hidden * 4, statistics = 2 * rows * 4;
  std::int64_t gradients = 0;
  for (const Argument& result : module.functions[0].results) {
    gradients += module.functions[0].type(result.value).bytes();
  }
  // Beside what is held: the gradients, and the working set of one layer.
  const std::int64_t working_set = 3 * pre_activation + 3 * xhat;
  CHECK(peak_bytes(module.functions[0]) <
        layers * (xhat + pre_activation + statistics) + gradients + working_set);
}

TEST_CASE("A random program comes out the same from the same seed, and another from another", "[support]") {
  const std::string text = print(testing::random_program(42).module);
  CHECK(print(testing::random_program(42).module) == text);
  CHECK(print(testing::random_program(43).module) != text);
}

TEST_CASE("Random programs stay finite, moderate and well conditioned", "[support]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    testing::ProgramOptions options;
    options.gradients = seed % 2 == 1;
    const testing::RandomProgram program = testing::random_program(seed, options);
    EvalState state = program.state;
    const std::vector<Tensor> results =
        evaluate(program.module, program.module.function("main"), program.inputs, state);
    for (const Tensor& result : results) {
      for (double value : result.data) REQUIRE(std::abs(value) < 1e5);
    }
    CHECK(testing::first_difference(results, testing::evaluate_rounded(program), 1e-4) == "");
  }
}

}  // namespace rewire::ir

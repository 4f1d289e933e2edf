// The passes change no result: random programs under the evaluator, before and after.
#include <cmath>
#include <string>
#include <utility>

#include "ir/evaluate.h"
#include "ir/passes/pass.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/catch.h"
#include "tests/support/random_program.h"

namespace rewire::ir {
namespace {

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
    PassContext context;
    context.training = program.state.training;
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

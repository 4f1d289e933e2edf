// A composite's decomposition means what the composite's evaluator says.
#include <algorithm>
#include <cmath>
#include <string>

#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/verify.h"
#include "tests/support/catch.h"
#include "tests/support/op_cases.h"

namespace rewire::ir {
namespace {

/// Replaces the one op of this code by its decomposition.
void decompose_in_place(Module& module, Function& function, const OpInfo& info) {
  const auto found = std::find_if(function.body.begin(), function.body.end(),
                                  [&](const Op& op) { return op.code == info.code; });
  REQUIRE(found != function.body.end());
  const Op op = *found;
  Builder b(module, function);
  b.set_position(static_cast<std::size_t>(found - function.body.begin()));
  const std::vector<Value> replacements = info.decompose(b, op);
  REQUIRE(replacements.size() == op.results.size());
  for (std::size_t i = 0; i < replacements.size(); ++i) {
    REQUIRE(b.type(replacements[i]) == b.type(op.results[i]));
    function.replace_uses(op.results[i], replacements[i], b.position());
  }
  function.body.erase(function.body.begin() + static_cast<std::ptrdiff_t>(b.position()));
}

/// The largest difference, relative to the largest magnitude expected.
double relative_error(const Tensor& actual, const Tensor& expected) {
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    error = std::max(error, std::abs(actual.data[i] - expected.data[i]));
    scale = std::max(scale, std::abs(expected.data[i]));
  }
  return scale == 0 ? error : error / scale;
}

TEST_CASE("every decomposition agrees with the composite's own evaluator") {
  for (const OpInfo& info : op_table()) {
    if (info.decompose == nullptr) continue;
    for (std::uint64_t seed = 1; seed <= 24; ++seed) {
      CAPTURE(std::string(info.name), seed);
      const rewire::testing::OpCase whole = rewire::testing::random_op_case(info.code, seed);
      Module module = whole.module;
      Function& function = module.function("main");
      decompose_in_place(module, function, info);
      verify(module);
      EvalState whole_state = whole.state, state = whole.state;
      const std::vector<Tensor> expected =
          evaluate(whole.module, whole.module.function("main"), whole.inputs, whole_state);
      const std::vector<Tensor> actual = evaluate(module, function, whole.inputs, state);
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(relative_error(actual[i], expected[i]) < 1e-12);
    }
  }
}

struct DropoutProgram {
  Module module;
  EvalState state;

  /// One argument-free function: dropout of ones, and the numbers it draws.
  explicit DropoutProgram(double probability) {
    module.name = "test";
    Function& function = module.functions.emplace_back();
    function.name = "main";
    Builder b(module, function);
    const TensorType type{DType::f32, {4, 8}};
    const Value seed = b.constant(5, DType::i64), step = b.constant(2, DType::i64);
    const Value training = b.constant(1, DType::i1);
    const Attributes stream = {{"stream", std::string("mask")}};
    b.result("u", b.emit(Opcode::random_uniform, {seed, step}, stream, type));
    b.result("y", b.emit(Opcode::dropout, {b.constant(1, type.dtype, type.shape), seed, step, training},
                         {{"probability", probability}, {"stream", std::string("mask")}}));
  }
  Tensor run(std::string_view result) {
    const Function& function = module.function("main");
    return evaluate(module, function, {}, state)[result == "u" ? 0 : 1];
  }
  void decompose() { decompose_in_place(module, module.function("main"), op_info(Opcode::dropout)); }
};

TEST_CASE("a draw that meets the probability is kept and one just below it is dropped, decomposed or not") {
  const std::size_t element = 3;
  const double drawn = DropoutProgram(0.5).run("u").data[element];
  REQUIRE(drawn > 0);
  for (const bool decomposed : {false, true}) {
    CAPTURE(decomposed);
    DropoutProgram meets(drawn), misses(std::nextafter(drawn, 1.0));
    if (decomposed) {
      meets.decompose();
      misses.decompose();
    }
    CHECK(meets.run("y").data[element] == Approx(1 / (1 - drawn)));
    CHECK(misses.run("y").data[element] == 0.0);
  }
}

}  // namespace
}  // namespace rewire::ir

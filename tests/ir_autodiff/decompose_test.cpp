// A composite's decomposition means what the composite's evaluator says.
#include <algorithm>
#include <cmath>
#include <string>

#include "ir/builder.h"
#include "ir/evaluate.h"
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

}  // namespace
}  // namespace rewire::ir

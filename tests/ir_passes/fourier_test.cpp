// Fourier transforms as matrix products: equal to what they replace, where they are asked for.
#include <cmath>
#include <random>

#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/passes/fourier_products.h"
#include "ir/verify.h"
#include "tests/support/catch.h"

namespace rewire::ir {
namespace {

/// irfft of rfft(x) with what lies between them left out, x [2, 3, n]; and the spectrum itself.
Module transforms(std::int64_t n) {
  Module module;
  module.functions.emplace_back();
  Function& function = module.functions[0];
  function.name = "main";
  Builder b(module, function);
  const Value x = b.argument("x", {DType::f64, {2, 3, n}});
  const Value spectrum = b.emit(Opcode::rfft, {x});
  const Value weighted = b.mul(spectrum, spectrum);
  b.result("spectrum", spectrum);
  b.result("row", b.emit(Opcode::irfft, {weighted}, {{"length", n}}));
  return module;
}

int count(const Function& function, Opcode code) {
  int found = 0;
  for (const Op& op : function.body) found += op.code == code ? 1 : 0;
  return found;
}

TEST_CASE("fourier_products equals the transforms it replaces, at any length", "[ir][passes]") {
  for (const std::int64_t n : {1, 2, 3, 7, 8, 96, 125}) {
    CAPTURE(n);
    const Module before = transforms(n);
    Module after = before;
    PassContext context;
    context.fourier_products = true;
    fourier_products(after, context);
    verify(after);
    CHECK(count(after.functions[0], Opcode::rfft) + count(after.functions[0], Opcode::irfft) == 0);
    CHECK(count(after.functions[0], Opcode::matmul) == 2);

    std::mt19937_64 random(static_cast<std::uint64_t>(n));
    Tensor x({DType::f64, {2, 3, n}});
    for (double& value : x.data) value = std::uniform_real_distribution<double>(-1, 1)(random);
    EvalState state;
    const std::vector<Tensor> expected = evaluate(before, before.functions[0], {x}, state);
    const std::vector<Tensor> actual = evaluate(after, after.functions[0], {x}, state);
    for (std::size_t result = 0; result < 2; ++result) {
      REQUIRE(actual[result].type == expected[result].type);
      double worst = 0;
      for (std::size_t i = 0; i < expected[result].data.size(); ++i)
        worst = std::max(worst, std::abs(actual[result].data[i] - expected[result].data[i]));
      CHECK(worst < 1e-12 * static_cast<double>(n));
    }
  }
}

TEST_CASE("fourier_products leaves long rows alone, and all of them unless asked", "[ir][passes]") {
  for (const bool asked : {false, true}) {
    Module module = transforms(asked ? 1025 : 8);
    PassContext context;
    context.fourier_products = asked;
    fourier_products(module, context);
    CHECK(count(module.functions[0], Opcode::rfft) == 1);
    CHECK(count(module.functions[0], Opcode::irfft) == 1);
  }
}

}  // namespace
}  // namespace rewire::ir

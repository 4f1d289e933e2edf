// Fourier transforms as matrix products and as a device's library has them: equal to what they replace, where
// they are asked for.
#include <algorithm>
#include <cmath>
#include <random>

#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/passes/fourier.h"
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

PassContext asking(FourierWay way) {
  PassContext context;
  context.fourier = [way](const FourierRows&) { return way; };
  return context;
}

TEST_CASE("lower_fourier equals the transforms it replaces, at any length and in either way",
          "[ir][passes]") {
  for (const std::int64_t n : {1, 2, 3, 7, 8, 96, 125}) {
    for (const FourierWay way : {FourierWay::product, FourierWay::pairs}) {
      CAPTURE(n, way == FourierWay::pairs);
      const Module before = transforms(n);
      Module after = before;
      PassContext context = asking(way);
      lower_fourier(after, context);
      verify(after);
      const Function& main = after.functions[0];
      CHECK(count(main, Opcode::rfft) + count(main, Opcode::irfft) == 0);
      CHECK(count(main, Opcode::matmul) == (way == FourierWay::product ? 2 : 0));
      CHECK(count(main, Opcode::rfft_pairs) == (way == FourierWay::pairs ? 1 : 0));
      CHECK(count(main, Opcode::irfft_pairs) == (way == FourierWay::pairs ? 1 : 0));

      std::mt19937_64 random(static_cast<std::uint64_t>(n));
      Tensor x({DType::f64, {2, 3, n}});
      for (double& value : x.data) value = std::uniform_real_distribution<double>(-1, 1)(random);
      EvalState state;
      const std::vector<Tensor> expected = evaluate(before, before.functions[0], {x}, state);
      const std::vector<Tensor> actual = evaluate(after, main, {x}, state);
      for (std::size_t result = 0; result < 2; ++result) {
        REQUIRE(actual[result].type == expected[result].type);
        double worst = 0;
        for (std::size_t i = 0; i < expected[result].data.size(); ++i)
          worst = std::max(worst, std::abs(actual[result].data[i] - expected[result].data[i]));
        CHECK(worst < 1e-12 * static_cast<double>(n));
      }
    }
  }
}

TEST_CASE("lower_fourier is asked for each transform, and leaves alone what nobody wants otherwise",
          "[ir][passes]") {
  Module module = transforms(9);
  std::vector<FourierRows> asked;
  PassContext context;
  lower_fourier(module, context);  // nobody to ask
  context.fourier = [&](const FourierRows& rows) {
    asked.push_back(rows);
    return FourierWay::op;
  };
  lower_fourier(module, context);
  CHECK(count(module.functions[0], Opcode::rfft) == 1);
  CHECK(count(module.functions[0], Opcode::irfft) == 1);
  REQUIRE(asked.size() == 2);
  CHECK(asked[0] == FourierRows{6, 9, false, DType::f64});
  CHECK(asked[1] == FourierRows{6, 9, true, DType::f64});
}

TEST_CASE("the inverse of pairs sees no imaginary part that a real row has none of", "[ir][passes]") {
  for (const std::int64_t n : {1, 2, 5, 6}) {
    CAPTURE(n);
    Module module;
    Function& main = module.functions.emplace_back();
    main.name = "main";
    Builder b(module, main);
    const Value y = b.argument("y", {DType::f64, {2, n / 2 + 1}});
    b.result("x", b.emit(Opcode::irfft, {y}, {{"length", n}}));
    PassContext context = asking(FourierWay::pairs);
    lower_fourier(module, context);
    const auto inverse = std::ranges::find(main.body, Opcode::irfft_pairs, &Op::code);
    REQUIRE(inverse != main.body.end());
    main.results = {{"pairs", inverse->operands[0]}};
    verify(module);
    EvalState state;
    const Tensor ones({DType::f64, {2, n / 2 + 1}},
                      std::vector<double>(static_cast<std::size_t>(n / 2 + 1) * 2, 1));
    const Tensor pairs = evaluate(module, main, {ones}, state)[0];
    for (std::int64_t k = 0; k <= n / 2; ++k) {
      const double share = 1 / static_cast<double>(n);
      CHECK(pairs.data[static_cast<std::size_t>(2 * k)] == share);
      CHECK(pairs.data[static_cast<std::size_t>(2 * k + 1)] == (k == 0 || 2 * k == n ? 0 : share));
    }
  }
}

}  // namespace
}  // namespace rewire::ir

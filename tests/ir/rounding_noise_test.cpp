// Errors of the size of a rounding: exact ops have none, sums have that of their terms and not of themselves.
#include "ir/rounding_noise.h"

#include <cmath>

#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"

namespace rewire::ir {
namespace {

struct Net {
  Module module;
  Function function;
  Builder b{module, function};

  Value add_argument(Shape shape) { return b.argument("x", {DType::f32, std::move(shape)}); }
  double run(std::vector<double> x, std::uint64_t noise) {
    EvalState state;
    state.noise = noise;
    return evaluate(module, function, {Tensor(function.types.front(), std::move(x))}, state).at(0).scalar();
  }
  /// The root mean square of what 200 runs are off by.
  double scatter(const std::vector<double>& x) {
    const double exact = run(x, 0);
    double square = 0;
    for (std::uint64_t noise = 1; noise <= 200; ++noise) square += std::pow(run(x, noise) - exact, 2);
    return std::sqrt(square / 200);
  }
};

constexpr double kUnit = 0x1p-23;
/// Of a uniform draw from [-1, 1].
const double kSpread = 1 / std::sqrt(3.0);

TEST_CASE("The noise of a sum is that of its terms, however small it is itself") {
  Net net;
  net.b.result("y", net.b.sum(net.add_argument({4}), {0}));
  CHECK(net.scatter({1000, -1000, 500, -500}) == Approx(3000 * kUnit * kSpread).epsilon(0.15));
  CHECK(net.scatter({1, 2, 3, 4}) == Approx(10 * kUnit * kSpread).epsilon(0.15));
}

TEST_CASE("The noise of a product of matrices is that of its terms") {
  Net net;
  const Value x = net.add_argument({1, 3});
  net.b.result("y", net.b.matmul(x, x, false, true));
  CHECK(net.scatter({1, 2, 2}) == Approx(9 * kUnit * kSpread).epsilon(0.15));
}

TEST_CASE("A pointwise op has the noise of its result, an op that is exact has none") {
  Net product;
  const Value x = product.add_argument({});
  product.b.result("y", product.b.mul(x, x));
  CHECK(product.scatter({3}) == Approx(9 * kUnit * kSpread).epsilon(0.15));
  Net exact;
  exact.b.result("y", exact.b.unary(Opcode::neg, exact.b.reshape(exact.add_argument({1}), {})));
  CHECK(exact.scatter({3}) == 0);
}

TEST_CASE("Noise follows the dtype: none of integers, more of narrow floats") {
  Net narrow;
  narrow.b.result("y", narrow.b.cast(narrow.b.cast(narrow.add_argument({}), DType::bf16), DType::f64));
  CHECK(narrow.scatter({1}) == Approx(0x1p-7 * kSpread).epsilon(0.15));
  Net integer;
  integer.b.result("y", integer.b.cast(integer.add_argument({}), DType::i32));
  CHECK(integer.scatter({3.7}) == 0);
}

TEST_CASE("One number gives the same noise each time, another one another") {
  Net net;
  net.b.result("y", net.b.sum(net.add_argument({4}), {0}));
  const std::vector<double> x = {1, 2, 3, 4};
  CHECK(net.run(x, 5) == net.run(x, 5));
  CHECK(net.run(x, 5) != net.run(x, 6));
}

}  // namespace
}  // namespace rewire::ir

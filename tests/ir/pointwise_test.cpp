// The meaning of pointwise ops: identities, tabulated values, exact integers, NaN.
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/opcodes.h"
#include "tests/ir/run_op.h"
#include "tests/support/catch.h"

using namespace rewire::ir;
using namespace rewire::testing;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kExact = 1e-14;

using Values = std::vector<double>;

Values unary(Opcode code, const Values& x) {
  return values_of(code, {f32({static_cast<std::int64_t>(x.size())}, x)});
}
Values binary(Opcode code, const Values& a, const Values& b) {
  const Shape shape = {static_cast<std::int64_t>(a.size())};
  return values_of(code, {f32(shape, a), f32(shape, b)});
}
Values compare(const std::string& direction, const Values& a, const Values& b) {
  const Shape shape = {static_cast<std::int64_t>(a.size())};
  return values_of(Opcode::compare, {f32(shape, a), f32(shape, b)}, {{"direction", direction}});
}
Values cast(const Tensor& x, DType to) {
  return values_of(Opcode::cast, {x}, {}, TensorType{to, x.type.shape});
}

const Values kSamples = {-3.5, -1, -0.25, 0.125, 1, 2.75};

}  // namespace

TEST_CASE("neg, abs and floor are exact") {
  CHECK(unary(Opcode::neg, kSamples) == Values{3.5, 1, 0.25, -0.125, -1, -2.75});
  CHECK(unary(Opcode::abs, kSamples) == Values{3.5, 1, 0.25, 0.125, 1, 2.75});
  CHECK(unary(Opcode::floor, kSamples) == Values{-4, -1, -1, 0, 1, 2});
}

TEST_CASE("exp and log have their tabulated values and undo each other") {
  CHECK(distance(unary(Opcode::exp, {0, 1, -1}), {1, std::numbers::e, 1 / std::numbers::e}) < kExact);
  CHECK(distance(unary(Opcode::log, {1, std::numbers::e, 2}), {0, 1, std::numbers::ln2}) < kExact);
  CHECK(distance(unary(Opcode::log, unary(Opcode::exp, kSamples)), kSamples) < kExact);
}

TEST_CASE("sqrt and rsqrt are roots and their inverses") {
  CHECK(unary(Opcode::sqrt, {0, 1, 4, 6.25}) == Values{0, 1, 2, 2.5});
  CHECK(distance(unary(Opcode::rsqrt, {1, 4, 6.25}), {1, 0.5, 0.4}) < kExact);
}

TEST_CASE("sin and cos lie on the unit circle, with the right phase") {
  const Values sine = unary(Opcode::sin, kSamples);
  const Values cosine = unary(Opcode::cos, kSamples);
  for (std::size_t i = 0; i < kSamples.size(); ++i) {
    CHECK(std::abs(sine[i] * sine[i] + cosine[i] * cosine[i] - 1) < kExact);
  }
  CHECK(distance(unary(Opcode::sin, {std::numbers::pi / 6}), {0.5}) < kExact);
  CHECK(distance(unary(Opcode::cos, {std::numbers::pi / 3}), {0.5}) < kExact);
}

TEST_CASE("tanh and sigmoid obey tanh(x) = 2 sigmoid(2x) - 1") {
  Values doubled = kSamples;
  for (double& x : doubled) x *= 2;
  Values expected = unary(Opcode::sigmoid, doubled);
  for (double& x : expected) x = 2 * x - 1;
  CHECK(distance(unary(Opcode::tanh, kSamples), expected) < kExact);
  CHECK(distance(unary(Opcode::sigmoid, {0, std::numbers::ln2}), {0.5, 2.0 / 3}) < kExact);
}

TEST_CASE("erf has its tabulated values") {
  // Abramowitz and Stegun, table 7.1.
  CHECK(distance(unary(Opcode::erf, {0, 0.5, 1, 2, -1}),
                 {0, 0.5204998778, 0.8427007929, 0.9953222650, -0.8427007929}) < 1e-10);
}

TEST_CASE("isfinite knows infinities and NaN") {
  CHECK(unary(Opcode::isfinite, {1, kInfinity, -kInfinity, kNan, 0}) == Values{1, 0, 0, 0, 1});
}

TEST_CASE("Arithmetic is exact where double is") {
  CHECK(binary(Opcode::add, {1, -2}, {0.5, 3}) == Values{1.5, 1});
  CHECK(binary(Opcode::sub, {1, -2}, {0.5, 3}) == Values{0.5, -5});
  CHECK(binary(Opcode::mul, {1, -2}, {0.5, 3}) == Values{0.5, -6});
  CHECK(binary(Opcode::div, {1, -3}, {0.5, 2}) == Values{2, -1.5});
  CHECK(binary(Opcode::pow, {2, -3, 9, 2}, {10, 3, 0.5, -1}) == Values{1024, -27, 3, 0.5});
}

TEST_CASE("maximum and minimum pass NaN on from either side") {
  CHECK(binary(Opcode::maximum, {1, -2, 5}, {2, -3, 5}) == Values{2, -2, 5});
  CHECK(binary(Opcode::minimum, {1, -2, 5}, {2, -3, 5}) == Values{1, -3, 5});
  for (Opcode code : {Opcode::maximum, Opcode::minimum}) {
    const Values y = binary(code, {kNan, 1}, {1, kNan});
    CHECK(std::isnan(y[0]));
    CHECK(std::isnan(y[1]));
  }
}

TEST_CASE("Integers are exact to 2^53") {
  const double large = 0x1p53 - 1;
  CHECK(values_of(Opcode::sub, {i64({2}, {large, -5}), i64({2}, {1, 7})}) == Values{large - 1, -12});
  CHECK(values_of(Opcode::maximum, {i32({2}, {3, -5}), i32({2}, {1, 7})}) == Values{3, 7});
}

TEST_CASE("compare answers all six directions, and no to NaN but for ne") {
  const Values a = {1, 2, 3, kNan};
  const Values b = {2, 2, 2, 2};
  CHECK(compare("lt", a, b) == Values{1, 0, 0, 0});
  CHECK(compare("le", a, b) == Values{1, 1, 0, 0});
  CHECK(compare("gt", a, b) == Values{0, 0, 1, 0});
  CHECK(compare("ge", a, b) == Values{0, 1, 1, 0});
  CHECK(compare("eq", a, b) == Values{0, 1, 0, 0});
  CHECK(compare("ne", a, b) == Values{1, 0, 1, 1});
}

TEST_CASE("Logic follows its truth tables, select picks by it") {
  const Tensor p = i1({4}, {0, 0, 1, 1});
  const Tensor q = i1({4}, {0, 1, 0, 1});
  CHECK(values_of(Opcode::logical_and, {p, q}) == Values{0, 0, 0, 1});
  CHECK(values_of(Opcode::logical_or, {p, q}) == Values{0, 1, 1, 1});
  CHECK(values_of(Opcode::logical_not, {p}) == Values{1, 1, 0, 0});
  // The branch not taken does not leak: a NaN there stays there.
  CHECK(values_of(Opcode::select, {p, f32({4}, {1, 2, 3, 4}), f32({4}, {5, 6, kNan, kNan})}) ==
        Values{5, 6, 3, 4});
}

TEST_CASE("cast truncates toward zero, tests against zero, and widens exactly") {
  CHECK(cast(f32({4}, {2.9, -2.9, 0.5, -0.5}), DType::i32) == Values{2, -2, 0, 0});
  CHECK(cast(f32({3}, {255.7, 0.9, 17}), DType::u8) == Values{255, 0, 17});
  CHECK(cast(f32({4}, {0, 0.25, -3, kNan}), DType::i1) == Values{0, 1, 1, 1});
  CHECK(cast(i64({2}, {-7, 0x1p53}), DType::f64) == Values{-7, 0x1p53});
  CHECK(cast(i1({2}, {0, 1}), DType::f32) == Values{0, 1});
}

TEST_CASE("stop_gradient and all_reduce on one rank are the identity") {
  CHECK(unary(Opcode::stop_gradient, kSamples) == kSamples);
  CHECK(unary(Opcode::all_reduce, kSamples) == kSamples);
}

// The initial numbers: their distributions against the formulas, and what they depend on.
#include "runtime/network/initialise.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/error.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

using ir::InitKind;

ir::Parameter parameter(std::string name, ir::Shape shape, ir::Init init) {
  ir::Parameter p;
  p.name = std::move(name);
  p.type = {ir::DType::f32, std::move(shape)};
  p.init = init;
  return p;
}

std::vector<float> draw(const ir::Parameter& p, std::uint64_t seed) {
  ir::Module module;
  module.add_parameter(p);
  const TensorMap state = initialise(module, seed);
  const auto values = state.at(p.name).as<float>();
  return {values.begin(), values.end()};
}

double normal_cdf(double x) {
  return std::erfc(-x / std::numbers::sqrt2) / 2;
}

/// Kolmogorov's distance sqrt(n) sup |F_n - F|; above 1.95 once in a thousand seeds.
template <class Cdf>
double kolmogorov(std::vector<float> values, Cdf cdf) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double f = cdf(static_cast<double>(values[i])), rank = static_cast<double>(i);
    distance = std::max({distance, f - rank / n, (rank + 1) / n - f});
  }
  return distance * std::sqrt(n);
}

constexpr ir::Shape::value_type kCount = 100'003;

TEST_CASE("Each kind draws from its distribution") {
  const std::uint64_t seed = GENERATE(as<std::uint64_t>{}, 0, 1, 12345678901);
  CAPTURE(seed);
  SECTION("normal") {
    const auto values = draw(parameter("w", {kCount}, {InitKind::normal, 0.5}), seed);
    CHECK(kolmogorov(values, [](double x) { return normal_cdf(x / 0.5); }) < 1.95);
  }
  SECTION("truncated normal, cut far out as timm cuts it") {
    const auto values = draw(parameter("w", {kCount}, {InitKind::trunc_normal, 0.02, 2.0}), seed);
    CHECK(kolmogorov(values, [](double x) { return normal_cdf(x / 0.02); }) < 1.95);
    CHECK(std::all_of(values.begin(), values.end(), [](float x) { return std::abs(x) < 0.12; }));
  }
  SECTION("truncated normal, cut close") {
    const auto values = draw(parameter("w", {kCount}, {InitKind::trunc_normal, 1.0, 0.7}), seed);
    CHECK(std::all_of(values.begin(), values.end(), [](float x) { return std::abs(x) <= 0.7F; }));
    const double low = normal_cdf(-0.7), mass = normal_cdf(0.7) - low;
    CHECK(kolmogorov(values, [&](double x) { return (normal_cdf(x) - low) / mass; }) < 1.95);
  }
  SECTION("uniform") {
    const auto values = draw(parameter("w", {kCount}, {InitKind::uniform, -0.25, 0.75}), seed);
    CHECK(kolmogorov(values, [](double x) { return x + 0.25; }) < 1.95);
    CHECK(*std::min_element(values.begin(), values.end()) >= -0.25F);
    CHECK(*std::max_element(values.begin(), values.end()) <= 0.75F);
  }
  SECTION("Xavier uniform takes its fans from the last two axes") {
    const auto values = draw(parameter("w", {7, 300, 50}, {InitKind::xavier_uniform}), seed);
    const double bound = std::sqrt(6.0 / 350);
    CHECK(kolmogorov(values, [&](double x) { return (x + bound) / (2 * bound); }) < 1.95);
  }
}

TEST_CASE("Zeros, ones, constants and values are just that") {
  CHECK(draw(parameter("w", {3}, {InitKind::zeros}), 5) == std::vector<float>{0, 0, 0});
  CHECK(draw(parameter("w", {2}, {InitKind::ones}), 5) == std::vector<float>{1, 1});
  CHECK(draw(parameter("w", {1}, {InitKind::constant, 2.5}), 5) == std::vector<float>{2.5});
  CHECK(draw(parameter("w", {2, 2}, {InitKind::values, 0, 0, {1, 2, 3, 4.5}}), 5) ==
        std::vector<float>{1, 2, 3, 4.5});
}

TEST_CASE(
    "An orthonormal start has rows of length 1 that are perpendicular, or columns where these are fewer, of "
    "the axes behind the "
    "first") {
  for (const ir::Shape& shape : {ir::Shape{5, 3, 2, 2}, {12, 7}, {6, 6}}) {
    CAPTURE(ir::to_string(shape));
    const std::vector<float> w = draw(parameter("w", shape, {InitKind::orthonormal}), 3);
    const auto rows = static_cast<std::size_t>(shape[0]), columns = w.size() / rows;
    const bool wide = rows < columns;
    for (std::size_t i = 0; i < std::min(rows, columns); ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (std::size_t k = 0; k < std::max(rows, columns); ++k) {
          const auto at = [&](std::size_t v) {
            return static_cast<double>(wide ? w[v * columns + k] : w[k * columns + v]);
          };
          dot += at(i) * at(j);
        }
        CHECK(dot == Approx(i == j ? 1 : 0).margin(1e-6));
      }
    }
    CHECK(w != draw(parameter("w", shape, {InitKind::orthonormal}), 4));
  }
  // Uniform among them: an entry of a 2 x 2 one is the cosine of a uniform angle.
  std::vector<float> first;
  for (std::uint64_t seed = 0; seed < 2000; ++seed)
    first.push_back(draw(parameter("w", {2, 2}, {InitKind::orthonormal}), seed)[0]);
  CHECK(kolmogorov(first, [](double x) {
          return 1 - std::acos(std::clamp(x, -1.0, 1.0)) / std::numbers::pi;
        }) < 1.95);
}

TEST_CASE("Sinusoids are sines and cosines of the place, in one dimension and in two") {
  const std::vector<float> places = draw(parameter("p", {1, 3, 4}, {InitKind::sinusoid}), 0);
  for (std::size_t p = 0; p < 3; ++p) {
    const auto x = static_cast<double>(p);
    const double expected[] = {std::sin(x), std::cos(x), std::sin(x / 100), std::cos(x / 100)};
    for (std::size_t c = 0; c < 4; ++c) CHECK(places[p * 4 + c] == Approx(expected[c]).margin(1e-7));
  }
  // A row of zeros, then 2 x 2 places: x changes first, and comes first.
  const std::vector<float> grid = draw(parameter("g", {1, 5, 8}, {InitKind::sinusoid_2d, 1}), 0);
  for (std::size_t c = 0; c < 8; ++c) CHECK(grid[c] == 0);
  for (std::size_t place = 0; place < 4; ++place) {
    const auto x = static_cast<double>(place % 2), y = static_cast<double>(place / 2);
    const double expected[] = {std::sin(x), std::sin(x / 100), std::cos(x), std::cos(x / 100),
                               std::sin(y), std::sin(y / 100), std::cos(y), std::cos(y / 100)};
    for (std::size_t c = 0; c < 8; ++c) CHECK(grid[(place + 1) * 8 + c] == Approx(expected[c]).margin(1e-7));
  }
}

TEST_CASE("Numbers depend on the seed and the name, and on no other parameter") {
  const ir::Init init{InitKind::normal, 1.0};
  ir::Module module;
  module.add_parameter(parameter("a", {4, 5}, init));
  module.add_parameter(parameter("b", {4, 5}, init));
  module.add_parameter(parameter("c", {3}, init));
  const TensorMap state = initialise(module, 9);
  auto values = [&](const char* name) {
    const auto span = state.at(name).as<float>();
    return std::vector<float>(span.begin(), span.end());
  };
  CHECK(values("a") == draw(parameter("a", {4, 5}, init), 9));
  CHECK(values("c") == draw(parameter("c", {3}, init), 9));
  CHECK(values("a") != values("b"));
  CHECK(values("a") != draw(parameter("a", {4, 5}, init), 10));
}

TEST_CASE("The seed itself, the step and the finite flag are state of their own types") {
  ir::Module module;
  auto state_parameter = [&](std::string name, ir::DType dtype, InitKind kind) {
    ir::Parameter p = parameter(std::move(name), {}, {kind});
    p.type.dtype = dtype;
    module.add_parameter(p);
  };
  state_parameter("rng.seed", ir::DType::i64, InitKind::zeros);
  state_parameter("train.step", ir::DType::i64, InitKind::zeros);
  state_parameter("train.finite", ir::DType::i1, InitKind::ones);
  const TensorMap state = initialise(module, 1234567890123ULL);
  CHECK(state.at("rng.seed").as<std::int64_t>()[0] == 1234567890123LL);
  CHECK(state.at("train.step").as<std::int64_t>()[0] == 0);
  CHECK(state.at("train.finite").as<std::uint8_t>()[0] == 1);
  CHECK_THROWS_AS(initialise(module, (1ULL << 53) + 1), UserError);
}

}  // namespace
}  // namespace rewire::runtime

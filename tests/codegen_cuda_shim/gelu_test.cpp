// The gradient of GELU in CUDA text, which computes erf from the exponential beside it, against double
// precision over all x. The host's twins of a GPU's fast exponential and inverse are exact, so this measures
// the polynomial and f32's rounding. A GPU adds the error of its exponential, at most 2^-22 of it.
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/ops/composite_parts.h"
#include "tests/cuda_shim/device_cases.h"
#include "tests/support/catch.h"

namespace rewire::cuda_shim {
namespace {

constexpr std::int64_t kPoints = 1 << 17;
constexpr double kRange = 14;
// f32 rounds erf, the sum with 1, the square of x and the last sum: with an exact erf and exp, 1.2e-7.
constexpr double kTolerance = 1.5e-7;

/// x and Phi(x) + x phi(x), in the order in which the gradient of GELU has them.
ir::Module gate() {
  ir::Module module;
  module.name = "gate";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const ir::Value x = b.argument("x", {ir::DType::f32, {kPoints}});
  const ir::Value exponential = b.unary(ir::Opcode::exp, b.mul(b.mul(x, x), -0.5));
  const ir::Value density = b.mul(exponential, std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  b.result("gate", b.add(ir::emit_normal_cdf(b, x), b.mul(x, density)));
  return module;
}

double exact_gate(double x) {
  const double density = std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return std::erfc(-x / std::numbers::sqrt2) / 2 + x * density;
}

TEST_CASE("the gradient of GELU is within f32's rounding of double precision for every x") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> x(kPoints);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = kRange * (2 * static_cast<double>(i) / static_cast<double>(x.size() - 1) - 1);
    x[i] = static_cast<float>(i % 2 == 0 ? at : at * at * at / (kRange * kRange * 100));  // also near 0
  }
  const std::vector<double> special = {0, -0.0, 1e-30, -1e-30, 1e4, -1e4, 1e18, -1e18, 3e38, -3e38, nan};
  std::copy(special.begin(), special.end(), x.begin());
  const DeviceProgram program(gate(), "main", true, {});
  REQUIRE(program.kernels().size() == 1);
  CHECK(program.kernels()[0].text.find("erf_by_exp(") != std::string::npos);
  DeviceCases cases;
  cases.add(gate(), {ir::Tensor({ir::DType::f32, {kPoints}}, x)}, {}, true);
  cases.compile();
  const std::vector<double> y = runtime::to_double(cases.run(0).results.at("gate")).data;
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      CHECK(std::isnan(y[i]));
    } else {
      worst = std::max(worst, std::abs(y[i] - exact_gate(x[i])));
    }
  }
  CHECK(worst <= kTolerance);
  CHECK(y[5] == 0);  // -1e4
  CHECK(y[4] == 1);
}

}  // namespace
}  // namespace rewire::cuda_shim

// Rounding to the narrow float types against the hardware's and against their definition.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "ir/tensor.h"
#include "tests/support/catch.h"

using namespace rewire::ir;

namespace {

/// Doubles of every magnitude that f32 knows, and beyond.
double random_double(std::mt19937_64& engine) {
  const double mantissa = std::uniform_real_distribution<double>(-2, 2)(engine);
  return std::ldexp(mantissa, std::uniform_int_distribution<int>(-160, 135)(engine));
}

/// The bf16 values around x are the f32 patterns whose low half is zero; the nearest of them, ties to even.
double nearest_bf16(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  const auto value = [](std::uint32_t pattern) {
    float result = 0;
    std::memcpy(&result, &pattern, sizeof(result));
    return static_cast<double>(result);
  };
  const std::uint32_t below = bits & 0xffff0000U;
  const std::uint32_t above = below + 0x10000U;
  const std::uint32_t half = bits & 0xffffU;
  const bool up = half > 0x8000U || (half == 0x8000U && (below & 0x10000U) != 0);
  return value(up ? above : below);
}

}  // namespace

TEST_CASE("round_to f32 agrees with the hardware's conversion") {
  std::mt19937_64 engine(7);
  for (int i = 0; i < 20000; ++i) {
    const double x = random_double(engine);
    CAPTURE(x);
    REQUIRE(round_to(DType::f32, x) == static_cast<double>(static_cast<float>(x)));
  }
}

TEST_CASE("round_to bf16 is the nearest bf16, ties to even") {
  std::mt19937_64 engine(8);
  for (int i = 0; i < 20000; ++i) {
    auto x = static_cast<float>(random_double(engine));
    if (!std::isfinite(x)) continue;
    if (i % 4 == 0) {  // a tie
      std::uint32_t bits = 0;
      std::memcpy(&bits, &x, sizeof(bits));
      bits = (bits & 0xffff0000U) | 0x8000U;
      std::memcpy(&x, &bits, sizeof(bits));
    }
    CAPTURE(x);
    REQUIRE(round_to(DType::bf16, x) == nearest_bf16(x));
  }
  // One rounding, not two: just above a tie of bf16, by less than f32 can see.
  CHECK(round_to(DType::bf16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);
  CHECK(round_to(DType::bf16, 1 + 0x1p-8) == 1);
}

TEST_CASE("round_to f16 knows subnormals, ties and overflow") {
  CHECK(round_to(DType::f16, 65504) == 65504);
  CHECK(round_to(DType::f16, 65519.9) == 65504);
  CHECK(std::isinf(round_to(DType::f16, 65520)));
  CHECK(round_to(DType::f16, -1e9) == -std::numeric_limits<double>::infinity());
  CHECK(round_to(DType::f16, 0x1p-24) == 0x1p-24);
  CHECK(round_to(DType::f16, 0x1p-25) == 0);
  CHECK(round_to(DType::f16, 3 * 0x1p-25) == 0x1p-23);
  CHECK(round_to(DType::f16, 1 + 0x1p-11) == 1);
  CHECK(round_to(DType::f16, 1 + 3 * 0x1p-11) == 1 + 0x1p-9);
}

TEST_CASE("round_to keeps infinities, NaN, zeros and f64, and truncates to integers") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    CHECK(round_to(dtype, infinity) == infinity);
    CHECK(round_to(dtype, -infinity) == -infinity);
    CHECK(std::isnan(round_to(dtype, std::numeric_limits<double>::quiet_NaN())));
    CHECK(round_to(dtype, 0) == 0);
  }
  CHECK(round_to(DType::f64, 0.1) == 0.1);
  CHECK(round_to(DType::i32, -2.7) == -2);
  CHECK(round_to(DType::u8, 2.7) == 2);
  CHECK(round_to(DType::i1, -0.5) == 1);
}

// The GEMM library: every type and layout it says it takes, as oneDNN's own bf16 and widened to f32, against
// sums in double precision.
#include "codegen/library/gemm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/support/catch.h"

using namespace rewire;
using codegen::GemmShape;
using ir::DType;

namespace {

/// n small numbers that bf16 holds, in memory of `dtype`.
struct Numbers {
  std::vector<double> values;
  std::vector<std::byte> memory;
  DType dtype;

  Numbers(std::int64_t n, DType type, int seed) : memory(static_cast<std::size_t>(n) * 4), dtype(type) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double value = static_cast<double>((i * 7 + seed * 5) % 17 - 8) / 8;
      values.push_back(value);
      set(i, value);
    }
  }
  void set(std::int64_t i, double value) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    if (dtype == DType::f32) reinterpret_cast<std::uint32_t*>(memory.data())[i] = bits;
    if (dtype == DType::bf16) {
      reinterpret_cast<std::uint16_t*>(memory.data())[i] = static_cast<std::uint16_t>(bits >> 16);
    }
  }
  double get(std::int64_t i) const {
    if (dtype == DType::f32) return static_cast<double>(reinterpret_cast<const float*>(memory.data())[i]);
    const std::uint32_t bits = reinterpret_cast<const std::uint16_t*>(memory.data())[i];
    return static_cast<double>(std::bit_cast<float>(bits << 16));
  }
};

void check(const GemmShape& s, bool native) {
  Numbers a(s.m * s.k + 64, s.dtype, 1), b(s.k * s.n + 64, s.dtype, 2), c(s.m * s.c_row, s.c_dtype, 3),
      bias(s.n, s.bias_dtype, 4);
  const codegen::Gemm gemm(s, native);
  std::vector<std::byte> scratch(static_cast<std::size_t>(gemm.scratch_bytes()) + 64);
  void* at = scratch.data();
  std::size_t space = scratch.size();
  at = std::align(64, static_cast<std::size_t>(gemm.scratch_bytes()), at, space);
  gemm.run(a.memory.data(), b.memory.data(), c.memory.data(), s.bias ? bias.memory.data() : nullptr, at);
  const double rounding = s.c_dtype == DType::bf16 ? 0x1p-8 : 1e-6;
  double wrong = 0;
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.c_row; ++j) {
      const auto place = static_cast<std::size_t>(i * s.c_row + j);
      double sum = c.values[place];  // what stands between rows stays as it is
      if (j < s.n) {
        if (!s.accumulate) sum = 0;
        if (s.bias) sum += bias.values[static_cast<std::size_t>(j)];
        for (std::int64_t k = 0; k < s.k; ++k) {
          sum += a.values[static_cast<std::size_t>(i * s.a_row + k * s.a_column)] *
                 b.values[static_cast<std::size_t>(k * s.b_row + j * s.b_column)];
        }
      }
      const double error = std::abs(c.get(i * s.c_row + j) - sum) - rounding * std::abs(sum);
      wrong = std::max(wrong, error);
    }
  }
  CAPTURE(s.m, s.n, s.k, s.a_column, s.b_column, s.bias, s.accumulate, ir::dtype_name(s.c_dtype), native);
  CHECK(wrong <= 1e-5);
}

}  // namespace

TEST_CASE("a GEMM of bf16 takes each layout and type, as bf16 and as f32") {
  for (const bool native : {false, true}) {
    if (native && !__builtin_cpu_supports("avx512bw")) continue;  // oneDNN has no bf16 below it
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{1, 1, 1}, {5, 3, 7}, {33, 65, 17}, {40, 10, 130}}) {
      for (int bits = 0; bits < 64; ++bits) {
        GemmShape s;
        s.m = m, s.n = n, s.k = k;
        s.dtype = DType::bf16;
        const bool a_by_columns = (bits & 1) != 0 && m > 1 && k > 1,
                   b_by_columns = (bits & 2) != 0 && k > 1 && n > 1;
        s.a_row = a_by_columns ? 1 : k, s.a_column = a_by_columns ? m : 1;
        s.b_row = b_by_columns ? 1 : n, s.b_column = b_by_columns ? k : 1;
        s.c_row = n + ((bits & 4) != 0 ? 3 : 0);
        s.c_dtype = (bits & 8) != 0 ? DType::bf16 : DType::f32;
        s.bias = (bits & 16) != 0;
        s.bias_dtype = (bits & 32) != 0 ? DType::bf16 : DType::f32;
        s.accumulate = (bits & 32) != 0 && !s.bias;
        check(s, native);
      }
    }
  }
}

TEST_CASE("a GEMM of a single row or column takes any stride along the sum") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool native : {false, true}) {
      if (native && dtype == DType::bf16 && !__builtin_cpu_supports("avx512bw")) continue;
      for (const auto& [m, n] : {std::array<std::int64_t, 2>{1, 13}, {13, 1}, {1, 1}}) {
        for (const std::int64_t k : {2, 17}) {
          for (int bits = 0; bits < 36; ++bits) {
            const std::int64_t stride = 1 + bits % 3;
            GemmShape s;
            s.m = m, s.n = n, s.k = k;
            s.dtype = dtype;
            s.c_dtype = DType::f32;
            const bool by_columns = bits % 2 == 1 && m > 1;
            s.a_row = m == 1 || by_columns ? 1 : k, s.a_column = m == 1 ? stride : by_columns ? m : 1;
            s.b_row = n == 1 ? stride : n, s.b_column = 1;
            s.c_row = n + (bits / 6 % 3) * 16;  // a column of a wider c
            s.accumulate = bits / 18 == 1;
            CAPTURE(stride, s.c_row);
            check(s, native);
          }
        }
      }
    }
  }
}

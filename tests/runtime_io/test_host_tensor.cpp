// Stored dtypes against doubles: exact where the dtype is exact, nearest even where it rounds.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "ir/error.h"
#include "runtime/io/host_tensor.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using ir::DType;
using test::message_of;

std::uint16_t half_bits(DType dtype, double value) {
  return to_host(ir::Tensor({dtype, {}}, {value})).as<std::uint16_t>()[0];
}

double half_value(DType dtype, std::uint16_t bits) {
  HostTensor tensor({dtype, {}});
  tensor.as<std::uint16_t>()[0] = bits;
  return to_double(tensor).scalar();
}

TEST_CASE("A new tensor is zeroed, 64-byte aligned, and a clone is its own") {
  HostTensor tensor({DType::f32, {3, 5}});
  CHECK(tensor.bytes().size() == 60);
  CHECK(reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % 64 == 0);
  for (const float value : tensor.as<float>()) CHECK(value == 0);
  HostTensor copy = tensor.clone();
  copy.as<float>()[7] = 1;
  CHECK(tensor.as<float>()[7] == 0);
  CHECK(copy.type() == tensor.type());
  CHECK(HostTensor().clone().bytes().empty());
}

TEST_CASE("Every 16-bit float survives the way to double and back") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (int code = 0; code < 0x10000; ++code) {
      const auto bits = static_cast<std::uint16_t>(code);
      const double value = half_value(dtype, bits);
      if (std::isnan(value)) {
        REQUIRE(std::isnan(half_value(dtype, half_bits(dtype, value))));
      } else if (half_bits(dtype, value) != bits) {
        FAIL("code " << code);
      }
    }
  }
}

TEST_CASE("16-bit floats have the values of their formats") {
  CHECK(half_value(DType::f16, 0x3c00) == 1);
  CHECK(half_value(DType::f16, 0x7bff) == 65504);
  CHECK(half_value(DType::f16, 0x0001) == std::ldexp(1, -24));
  CHECK(half_value(DType::f16, 0xfc00) == -std::numeric_limits<double>::infinity());
  CHECK(half_value(DType::bf16, 0x3f80) == 1);
  CHECK(half_value(DType::bf16, 0xc049) == -3.140625);
  CHECK(half_value(DType::bf16, 0x0001) == std::ldexp(1, -133));
}

TEST_CASE("Narrowing rounds once, to nearest, ties to even") {
  CHECK(half_bits(DType::f16, 65519.999) == 0x7bff);
  CHECK(half_bits(DType::f16, 65520) == 0x7c00);
  CHECK(half_bits(DType::f16, 1e300) == 0x7c00);
  CHECK(half_bits(DType::f16, -1e-300) == 0x8000);
  CHECK(half_bits(DType::f16, std::ldexp(1, -25)) == 0);
  CHECK(half_bits(DType::f16, std::ldexp(1.0001, -25)) == 1);
  CHECK(half_bits(DType::f16, std::ldexp(3, -25)) == 2);  // between 1 and 2 units: to the even one
  CHECK(half_bits(DType::bf16, 1 + std::ldexp(1, -8)) == 0x3f80);
  CHECK(half_bits(DType::bf16, 1 + std::ldexp(3, -8)) == 0x3f82);
  // Just above a tie by less than f32 can hold: rounding through f32 first would go down.
  CHECK(half_bits(DType::bf16, 1 + std::ldexp(1, -8) + std::ldexp(1, -40)) == 0x3f81);
}

TEST_CASE("A narrowed value is the nearest of its neighbours") {
  const std::uint64_t seed = 20;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> mantissa(1, 2);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::uniform_int_distribution<int> exponent(dtype == DType::f16 ? -26 : -135,
                                                dtype == DType::f16 ? 14 : 126);
    for (int i = 0; i < 20'000; ++i) {
      const double value = std::ldexp(mantissa(random), exponent(random));
      const std::uint16_t bits = half_bits(dtype, value);
      const double error = std::fabs(half_value(dtype, bits) - value);
      CAPTURE(value, bits);
      REQUIRE(error <= std::fabs(half_value(dtype, static_cast<std::uint16_t>(bits + 1)) - value));
      if (bits > 0)
        REQUIRE(error <= std::fabs(half_value(dtype, static_cast<std::uint16_t>(bits - 1)) - value));
    }
  }
}

TEST_CASE("Values convert between all dtypes that hold them") {
  const std::vector<double> values{0, 1, 2, 100};
  for (const DType from :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8}) {
    for (const DType to :
         {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8}) {
      const HostTensor converted = convert(to_host(ir::Tensor({from, {4}}, values)), to);
      CHECK(converted.type() == ir::TensorType{to, {4}});
      CHECK(to_double(converted).data == values);
    }
    const HostTensor truths = convert(to_host(ir::Tensor({from, {4}}, values)), DType::i1);
    CHECK(to_double(truths).data == std::vector<double>{0, 1, 1, 1});
  }
}

TEST_CASE("Integers keep all their bits where no double stands between") {
  HostTensor tensor({DType::i64, {1}});
  tensor.as<std::int64_t>()[0] = std::numeric_limits<std::int64_t>::max();
  CHECK(convert(tensor, DType::i64).as<std::int64_t>()[0] == std::numeric_limits<std::int64_t>::max());
  CHECK(message_of<UserError>([&] { to_double(tensor); }) ==
        "the integer 9223372036854775807 is beyond 2^53, so no double holds it exactly");
}

TEST_CASE("A number that the integer type cannot hold is refused, not wrapped") {
  const auto store = [](DType dtype, double value) { to_host(ir::Tensor({dtype, {}}, {value})); };
  CHECK(message_of<UserError>([&] { store(DType::u8, 256); }) == "the value 256 does not fit u8");
  CHECK(message_of<UserError>([&] { store(DType::u8, -1); }) == "the value -1 does not fit u8");
  CHECK(message_of<UserError>([&] { store(DType::i32, std::ldexp(1, 31)); }) ==
        "the value 2147483648 does not fit i32");
  CHECK(message_of<UserError>([&] { store(DType::i64, std::ldexp(1, 63)); }) ==
        "the value 9.223372036854776e+18 does not fit i64");
  CHECK(message_of<UserError>([&] { store(DType::i64, std::nan("")); }) == "the value nan does not fit i64");
  CHECK(to_double(to_host(ir::Tensor({DType::i32, {}}, {-std::ldexp(1, 31)}))).scalar() ==
        -std::ldexp(1, 31));
  CHECK(to_double(to_host(ir::Tensor({DType::i32, {}}, {-1.9}))).scalar() == -1);  // toward zero
}

}  // namespace
}  // namespace rewire::runtime

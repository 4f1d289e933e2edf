#include "tests/support/cast_edges.h"

#include <cmath>
#include <limits>

#include "ir/builder.h"

namespace rewire::testing {
namespace {

using ir::DType;

constexpr DType kAll[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                          DType::i64, DType::i32, DType::u8,   DType::i1};

std::vector<double> candidates() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> values = {0, 0.25, 0.5, 0.75, 1, 1.5, 2, 5e-324, 0x1p-149, 1e30, 1e300, kInfinity};
  for (const double end : {0x1p7, 0x1p8, 0x1p16, 0x1p24, 0x1p31, 0x1p32, 0x1p53, 0x1p63, 0x1p64}) {
    for (const double beside : {end - 1, end - 0.5, end, end + 1}) values.push_back(beside);
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  values.push_back(std::numeric_limits<double>::quiet_NaN());
  return values;
}

bool belongs(DType dtype, double value) {
  return ir::is_float(dtype) ? std::isnan(value) || ir::round_to(dtype, value) == value
                             : ir::holds(dtype, value);
}

}  // namespace

std::vector<CastEdges> cast_edges() {
  std::vector<CastEdges> all;
  for (const DType from : kAll) {
    std::vector<double> values;
    for (const double value : candidates()) {
      if (belongs(from, value)) values.push_back(value);
    }
    const ir::TensorType type{from, {static_cast<std::int64_t>(values.size())}};
    for (const DType to : kAll) {
      CastEdges& edges = all.emplace_back(CastEdges{from, to, {}, ir::Tensor(type, values)});
      edges.module.name = "cast";
      ir::Function& main = edges.module.functions.emplace_back();
      main.name = "main";
      ir::Builder b(edges.module, main);
      b.result("y", b.cast(b.argument("x", type), to));
    }
  }
  return all;
}

std::int64_t integer_cast_of(double value, ir::DType to) {
  const auto within = [&](std::int64_t least, std::int64_t most) {
    if (std::isnan(value)) return std::int64_t{0};
    if (value <= static_cast<double>(least)) return least;
    return value >= static_cast<double>(most) ? most : static_cast<std::int64_t>(value);
  };
  switch (to) {
    case DType::i64:
      return within(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
    case DType::i32:
      return within(-2147483648LL, 2147483647LL);
    case DType::u8:
      return within(0, 255);
    default:
      return value == 0 ? 0 : 1;
  }
}

}  // namespace rewire::testing

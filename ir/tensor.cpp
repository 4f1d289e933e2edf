// The values of a dtype: rounds a double to the nearest of them, and checks whether it is one of them.
#include "ir/tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rewire::ir {
namespace {

/// Rounds to the nearest value of a binary format, ties to even, in one rounding.
/// The format has `precision` significant bits (including the leading one), least
/// normal exponent `min_exponent` and largest finite value `largest`.
double round_to_binary(double value, int precision, int min_exponent, double largest) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int quantum = std::max(std::ilogb(value), min_exponent) - (precision - 1);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
  if (std::abs(rounded) > largest) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

double round_to_integer(double value, double least, double most) {
  return std::isnan(value) ? 0 : std::clamp(std::trunc(value), least, most);
}

}  // namespace

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f32:
      return round_to_binary(value, 24, -126, 0x1.fffffep127);
    case DType::bf16:
      return round_to_binary(value, 8, -126, 0x1.fep127);
    case DType::f16:
      return round_to_binary(value, 11, -14, 65504.0);
    case DType::i1:
      return value != 0 ? 1 : 0;
    case DType::i64:
      return round_to_integer(value, -0x1p63, 0x1p63);
    case DType::i32:
      return round_to_integer(value, -0x1p31, 0x1p31 - 1);
    case DType::u8:
      return round_to_integer(value, 0, 255);
    case DType::f64:
      break;
  }
  return value;
}

double round_to_tf32(double value) {
  return round_to_binary(value, 11, -126, 0x1.ffcp127);
}

bool holds(DType dtype, double value) {
  if (is_float(dtype)) return true;
  if (value != std::trunc(value)) return false;
  switch (dtype) {
    case DType::i64:
      return std::abs(value) <= 0x1p53;
    case DType::i32:
      return value >= -0x1p31 && value < 0x1p31;
    case DType::u8:
      return value >= 0 && value < 256;
    default:
      return value == 0 || value == 1;
  }
}

}  // namespace rewire::ir

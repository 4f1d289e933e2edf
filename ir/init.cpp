#include "ir/init.h"

#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "ir/init_text.h"
#include "ir/tensor.h"

namespace rewire::ir {
namespace {

/// No normal number of ir/philox.h is further from the mean than this number of standard deviations.
constexpr double kFurthestNormal = 8;

/// All drawn numbers are in [least, most]. Neither is finite if the init's numbers define no distribution.
struct Extent {
  double least, most;
};

Extent extent_of(const Init& init) {
  constexpr Extent kNone{NAN, NAN};
  const auto around_zero = [](double most) { return Extent{-most, most}; };
  switch (init.kind) {
    case InitKind::zeros:
      return {0, 0};
    case InitKind::ones:
      return {1, 1};
    case InitKind::constant:
      return {init.a, init.a};
    case InitKind::normal:
      return init.a >= 0 ? around_zero(kFurthestNormal * init.a) : kNone;
    case InitKind::trunc_normal:
      return init.a >= 0 && init.b > 0 ? around_zero(std::min(kFurthestNormal * init.a, init.b)) : kNone;
    case InitKind::uniform:
      return init.a <= init.b && std::isfinite(init.b - init.a) ? Extent{init.a, init.b} : kNone;
    case InitKind::xavier_uniform:
      return around_zero(2);
    case InitKind::orthonormal:
    case InitKind::sinusoid:
    case InitKind::sinusoid_2d:
      return around_zero(1);
    case InitKind::values:
      break;  // checked one by one in init_fault
  }
  internal_error("no such init: {}", static_cast<int>(init.kind));
}

bool fits(DType dtype, double value, InitKind kind) {
  if (is_float(dtype)) return std::isfinite(round_to(dtype, value));
  return std::isfinite(value) && holds(dtype, kind == InitKind::constant ? value : std::trunc(value));
}

/// Returns whether the last two axes are `prefix` rows and
/// then a square number of rows, with a width divisible by 4.
bool is_grid(double prefix, const TensorType& type) {
  const std::int64_t rows = type.shape[type.shape.size() - 2], width = type.shape.back();
  if (!(prefix >= 0) || prefix != std::floor(prefix) || prefix >= static_cast<double>(rows)) return false;
  const std::int64_t cells = rows - static_cast<std::int64_t>(prefix);
  const std::int64_t side = std::llround(std::sqrt(static_cast<double>(cells)));
  return side * side == cells && width % 4 == 0;
}

}  // namespace

std::string init_fault(const Init& init, const TensorType& type) {
  const bool of_matrix = init.kind == InitKind::xavier_uniform || init.kind >= InitKind::orthonormal;
  if (of_matrix && type.rank() < 2) {
    const std::string text = to_string(init);
    return fmt::format("the init {} takes two axes or more, {} has {}", text.substr(0, text.find('(')),
                       to_string(type), type.rank());
  }
  if (init.kind == InitKind::sinusoid_2d && !is_grid(init.a, type)) {
    return fmt::format(
        "the init {} takes that many rows and then a square grid, with a width divisible by 4; {} does not "
        "fit",
        to_string(init), to_string(type));
  }
  if (init.kind == InitKind::values) {
    const std::size_t given = init.values.size();
    if (given != static_cast<std::size_t>(type.elements()))
      return fmt::format("the init has {} values, {} has {} elements", given, to_string(type),
                         type.elements());
    for (const double value : init.values)
      if (!fits(type.dtype, value, InitKind::constant))
        return fmt::format("the init has the value {}, which is not a finite {}", value,
                           dtype_name(type.dtype));
    return {};
  }
  const Extent drawn = extent_of(init);
  if (fits(type.dtype, drawn.least, init.kind) && fits(type.dtype, drawn.most, init.kind)) return {};
  return fmt::format(
      "the init {} does not suit {}: its numbers must be finite, std >= 0, cut > 0, low <= high, and every "
      "drawn value must fit the dtype",
      to_string(init), dtype_name(type.dtype));
}

}  // namespace rewire::ir

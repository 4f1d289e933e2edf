// One matrix [to, from] of shares, applied to the columns and then to the rows; see position_grid.h.
#include "runtime/train/position_grid.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

constexpr double kCubic = -0.5, kCubicSupport = 2;

double keys_cubic(double x) {
  x = std::abs(x);
  if (x < 1) return ((kCubic + 2) * x - (kCubic + 3)) * x * x + 1;
  if (x < kCubicSupport) return ((kCubic * x - 5 * kCubic) * x + 8 * kCubic) * x - 4 * kCubic;
  return 0;
}

/// What each of `from` points in a row contributes to each of `to`, row-major [to, from].
std::vector<double> shares(std::int64_t from, std::int64_t to) {
  std::vector<double> matrix(static_cast<std::size_t>(to * from));
  const double step = static_cast<double>(from) / static_cast<double>(to), width = std::max(1.0, step);
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * step;
    const auto low =
        std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - kCubicSupport * width + 0.5));
    const auto high = std::min(from, static_cast<std::int64_t>(centre + kCubicSupport * width + 0.5));
    double total = 0;
    for (std::int64_t j = low; j < high; ++j) {
      const double share = keys_cubic((static_cast<double>(j) - centre + 0.5) / width);
      matrix[static_cast<std::size_t>(i * from + j)] = share;
      total += share;
    }
    for (std::int64_t j = low; j < high; ++j) matrix[static_cast<std::size_t>(i * from + j)] /= total;
  }
  return matrix;
}

}  // namespace

std::optional<PositionGrid> position_grid(const ir::Module& module, std::int64_t tokens) {
  PositionGrid grid;
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.role == "cls_token" && parameter.type.rank() == 3) grid.prefix += parameter.type.shape[1];
  }
  const std::int64_t patches = tokens - grid.prefix;
  if (patches < 1) return std::nullopt;
  grid.side = std::llround(std::sqrt(static_cast<double>(patches)));
  if (grid.side * grid.side != patches) return std::nullopt;
  return grid;
}

HostTensor resample_positions(const HostTensor& positions, const PositionGrid& from, std::int64_t to_side) {
  const ir::Tensor old = to_double(positions);
  const std::int64_t width = old.type.shape.at(2), side = from.side;
  if (old.type.shape.at(1) != from.prefix + side * side)
    internal_error("{} holds no grid of {} x {} behind {} tokens", to_string(old.type), side, side,
                   from.prefix);
  const std::vector<double> matrix = shares(side, to_side);
  const auto share = [&](std::int64_t to, std::int64_t j) {
    return matrix[static_cast<std::size_t>(to * side + j)];
  };
  const auto at = [](std::int64_t index) { return static_cast<std::size_t>(index); };
  const auto grid = old.data.begin() + static_cast<std::ptrdiff_t>(from.prefix * width);
  std::vector<double> rows(at(side * to_side * width));  // [side, to_side, width]
  for (std::int64_t y = 0; y < side; ++y) {
    for (std::int64_t x = 0; x < to_side; ++x) {
      for (std::int64_t j = 0; j < side; ++j) {
        for (std::int64_t c = 0; c < width; ++c)
          rows[at((y * to_side + x) * width + c)] += share(x, j) * grid[(y * side + j) * width + c];
      }
    }
  }
  ir::Tensor made({old.type.dtype, {1, from.prefix + to_side * to_side, width}});
  std::copy(old.data.begin(), grid, made.data.begin());
  const std::int64_t begin = from.prefix * width, row = to_side * width;
  for (std::int64_t y = 0; y < to_side; ++y) {
    for (std::int64_t j = 0; j < side; ++j) {
      for (std::int64_t i = 0; i < row; ++i)
        made.data[at(begin + y * row + i)] += share(y, j) * rows[at(j * row + i)];
    }
  }
  return to_host(made);
}

}  // namespace rewire::runtime

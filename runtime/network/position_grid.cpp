// One matrix [to, from] of shares, applied to the columns and then to the rows; see position_grid.h.
#include "runtime/network/position_grid.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

using models::PositionRule;

double keys_cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

double position_share(PositionRule rule, double x) {
  if (rule == PositionRule::pvt) return std::max(0.0, 1 - std::abs(x));
  return keys_cubic(x, rule == PositionRule::timm ? -0.5 : -0.75);
}

/// Returns the share of each of `from` points of a row in each of `to` points, row-major [to, from].
std::vector<double> shares(std::int64_t from, std::int64_t to, PositionRule rule) {
  std::vector<double> matrix(static_cast<std::size_t>(to * from));
  const bool is_timm = rule == PositionRule::timm;
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const double width = is_timm ? std::max(1.0, step) : 1, support = rule == PositionRule::pvt ? 1 : 2;
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * step;
    const auto low = static_cast<std::int64_t>(std::floor(centre - support * width + 0.5));
    const auto high = static_cast<std::int64_t>(std::floor(centre + support * width + 0.5));
    double total = 0;
    const auto row = matrix.begin() + static_cast<std::ptrdiff_t>(i * from);
    for (std::int64_t j = low; j < high; ++j) {
      const std::int64_t inside = std::clamp<std::int64_t>(j, 0, from - 1);
      if (is_timm && inside != j) continue;
      const double share = position_share(rule, (static_cast<double>(j) - centre + 0.5) / width);
      row[inside] += share;
      total += share;
    }
    std::for_each(row, row + from, [&](double& share) { share /= total; });
  }
  return matrix;
}

/// Returns the grid of the tokens after the prefix, `height` to `width` as its rows to its columns; nullopt if they
/// form none.
std::optional<PositionGrid> grid_behind(std::int64_t prefix, std::int64_t tokens, std::int64_t height,
                                        std::int64_t width) {
  const std::int64_t patches = tokens - prefix;
  if (patches < 1) return std::nullopt;
  const double squared =
      static_cast<double>(patches) * static_cast<double>(height) / static_cast<double>(width);
  const std::int64_t rows = std::max<std::int64_t>(1, std::llround(std::sqrt(squared)));
  const std::int64_t columns = patches / rows;
  if (rows * columns != patches || rows * width != columns * height) return std::nullopt;
  return PositionGrid{prefix, rows, columns};
}

}  // namespace

std::optional<PositionGrids> position_grids(const ir::Module& module, std::int64_t width, std::int64_t from,
                                            std::int64_t to) {
  std::int64_t classes = 0, registers = 0;
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.type.rank() != 3 || parameter.type.shape[2] != width) continue;
    if (parameter.role == "cls_token") classes += parameter.type.shape[1];
    if (parameter.role == "reg_token") registers += parameter.type.shape[1];
  }
  const auto side = [&](std::string_view name) {
    return module.attributes.has(name) ? module.attributes.get_int(name) : 1;
  };
  const std::int64_t image_height = side("image_height"), image_width = side("image_width");
  std::optional<PositionGrids> found;
  for (const std::int64_t prefix : std::set{classes + registers, classes, std::int64_t{0}}) {
    const std::optional<PositionGrid> old = grid_behind(prefix, from, 1, 1),
                                      made = grid_behind(prefix, to, image_height, image_width);
    if (!old || !made) continue;
    if (found) return std::nullopt;
    found = {*old, *made};
  }
  return found;
}

HostTensor resample_positions(const HostTensor& positions, const PositionGrid& from, const PositionGrid& to,
                              PositionRule rule) {
  const ir::Tensor old = to_double(positions);
  const std::int64_t width = old.type.shape.at(2);
  if (old.type.shape.at(1) != from.prefix + from.rows * from.columns || from.prefix != to.prefix)
    internal_error("{} holds no grid of {} x {} after {} tokens", to_string(old.type), from.rows,
                   from.columns, to.prefix);
  const auto at = [](std::int64_t index) { return static_cast<std::size_t>(index); };
  const auto grid = old.data.begin() + static_cast<std::ptrdiff_t>(from.prefix * width);
  const std::vector<double> across = shares(from.columns, to.columns, rule);
  std::vector<double> rows(at(from.rows * to.columns * width));  // [from.rows, to.columns, width]
  for (std::int64_t y = 0; y < from.rows; ++y) {
    for (std::int64_t x = 0; x < to.columns; ++x) {
      for (std::int64_t j = 0; j < from.columns; ++j) {
        const double share = across[at(x * from.columns + j)];
        for (std::int64_t c = 0; c < width; ++c)
          rows[at((y * to.columns + x) * width + c)] += share * grid[(y * from.columns + j) * width + c];
      }
    }
  }
  ir::Tensor made({old.type.dtype, {1, to.prefix + to.rows * to.columns, width}});
  std::copy(old.data.begin(), grid, made.data.begin());
  const std::vector<double> down = shares(from.rows, to.rows, rule);
  const std::int64_t begin = to.prefix * width, row = to.columns * width;
  for (std::int64_t y = 0; y < to.rows; ++y) {
    for (std::int64_t j = 0; j < from.rows; ++j) {
      const double share = down[at(y * from.rows + j)];
      for (std::int64_t i = 0; i < row; ++i)
        made.data[at(begin + y * row + i)] += share * rows[at(j * row + i)];
    }
  }
  return to_host(made);
}

}  // namespace rewire::runtime

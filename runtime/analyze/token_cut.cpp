#include "runtime/analyze/token_cut.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/error.h"
#include "runtime/linalg/lapack.h"

namespace rewire::runtime {
namespace {

constexpr double kApart = 1e-5;  // weight of an edge between patches that do not belong together

/// Returns the cosines of all pairs of rows; a row of zeros is at right angles to all.
std::vector<double> cosines(std::span<const float> features, std::size_t count) {
  const std::size_t width = features.size() / count;
  std::vector<double> unit(features.begin(), features.end());
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<double> row = std::span(unit).subspan(i * width, width);
    const double length = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
    if (!std::isfinite(length)) user_error("tokencut: a feature of patch {} is not finite", i);
    for (double& x : row) x = length > 0 ? x / length : 0;
  }
  std::vector<double> products(count * count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      const double* const a = unit.data() + i * width;
      const double* const b = unit.data() + j * width;
      products[i * count + j] = std::inner_product(a, a + width, b, 0.0);
    }
  }
  return products;
}

/// Returns the second eigenvector of (D - E) y = lambda D y. With z = D^1/2 y: D^-1/2 E D^-1/2 z = (1 -
/// lambda) z, whose largest eigenvalue is 1, for lambda = 0.
std::vector<double> second_vector(std::vector<double> edges, std::size_t count) {
  std::vector<double> root(count), values(count), vectors(count * count), y(count);
  for (std::size_t i = 0; i < count; ++i)
    root[i] = std::sqrt(std::accumulate(edges.begin() + static_cast<std::ptrdiff_t>(i * count),
                                        edges.begin() + static_cast<std::ptrdiff_t>((i + 1) * count), 0.0));
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) edges[i * count + j] /= root[i] * root[j];
  }
  eigh({1, count, count}, edges, values, vectors);
  for (std::size_t i = 0; i < count; ++i) y[i] = vectors[i * count + 1] / root[i];
  return y;
}

/// Returns the box around the patches of the mask that are connected to the seed.
PixelBox box_around(const std::vector<std::uint8_t>& mask, std::int64_t seed, std::int64_t columns) {
  const std::int64_t count = std::ssize(mask);
  std::vector<bool> seen(mask.size());
  std::vector<std::int64_t> pending = {seed};
  seen[static_cast<std::size_t>(seed)] = true;
  PixelBox box{seed % columns, seed / columns, seed % columns + 1, seed / columns + 1};
  while (!pending.empty()) {
    const std::int64_t at = pending.back(), x = at % columns, y = at / columns;
    pending.pop_back();
    box = {std::min(box.x0, x), std::min(box.y0, y), std::max(box.x1, x + 1), std::max(box.y1, y + 1)};
    const std::int64_t neighbours[] = {x > 0 ? at - 1 : -1, x + 1 < columns ? at + 1 : -1, at - columns,
                                       at + columns};
    for (const std::int64_t next : neighbours) {
      if (next < 0 || next >= count) continue;
      const auto index = static_cast<std::size_t>(next);
      if (seen[index] || mask[index] == 0) continue;
      seen[index] = true;
      pending.push_back(next);
    }
  }
  return box;
}

double area(const PixelBox& box) {
  return static_cast<double>(std::max<std::int64_t>(box.x1 - box.x0, 0)) *
         static_cast<double>(std::max<std::int64_t>(box.y1 - box.y0, 0));
}

}  // namespace

TokenCut token_cut(std::span<const float> features, std::int64_t rows, std::int64_t columns,
                   const TokenCutOptions& options) {
  const auto count = static_cast<std::size_t>(rows * columns);
  if (count < 2) user_error("tokencut: an image has {} patch; a cut takes two or more", count);
  std::vector<double> edges = cosines(features, count);
  for (double& edge : edges) edge = edge > options.tau ? 1 : kApart;
  // All patches belong together, or none to another: there is nothing to cut.
  const auto joined = static_cast<std::size_t>(std::ranges::count(edges, 1.0));
  if (joined == edges.size() || joined <= count)
    return {std::vector<double>(count), std::vector<std::uint8_t>(count, 1), 0, {0, 0, columns, rows}};
  TokenCut cut{.vector = second_vector(std::move(edges), count)};
  const double mean = std::accumulate(cut.vector.begin(), cut.vector.end(), 0.0) / static_cast<double>(count);
  const auto largest =
      std::ranges::max_element(cut.vector, [](double a, double b) { return std::abs(a) < std::abs(b); });
  cut.seed = largest - cut.vector.begin();
  const bool above = *largest > mean;
  for (const double y : cut.vector) cut.mask.push_back((y > mean) == above ? 1 : 0);
  cut.box = box_around(cut.mask, cut.seed, columns);
  return cut;
}

double box_iou(const PixelBox& a, const PixelBox& b) {
  const double both =
      area({std::max(a.x0, b.x0), std::max(a.y0, b.y0), std::min(a.x1, b.x1), std::min(a.y1, b.y1)});
  const double either = area(a) + area(b) - both;
  return either > 0 ? both / either : 0;
}

double correct_localisation(std::span<const PixelBox> found, std::span<const std::vector<PixelBox>> truth) {
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::ranges::any_of(truth[i], [&](const PixelBox& box) { return box_iou(found[i], box) > .5; }))
      ++correct;
  }
  return found.empty() ? 0 : static_cast<double>(correct) / static_cast<double>(found.size());
}

}  // namespace rewire::runtime

#include "runtime/analyze/pca_map.h"

#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "runtime/data/vision/contact_sheet.h"
#include "runtime/data/vision/preview.h"
#include "runtime/linalg/lapack.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kColours = 3;
constexpr std::int64_t kPairsInRow = 4, kLeastCell = 96;

/// Scales each component over all rows [count, 3]: the least value becomes 0, the largest 255.
std::vector<std::uint8_t> as_bytes(const std::vector<double>& components) {
  std::vector<std::uint8_t> bytes(components.size());
  for (std::size_t c = 0; c < kColours; ++c) {
    double least = components[c], largest = components[c];
    for (std::size_t i = c; i < components.size(); i += kColours) {
      least = std::min(least, components[i]);
      largest = std::max(largest, components[i]);
    }
    const double scale = largest > least ? 255 / (largest - least) : 0;
    for (std::size_t i = c; i < components.size(); i += kColours)
      bytes[i] = static_cast<std::uint8_t>(std::lround((components[i] - least) * scale));
  }
  return bytes;
}

}  // namespace

void require_grid(const FeatureFacts& facts, const char* option) {
  if (facts.patches == 0) user_error("{} needs the patches' features: use --kind tokens or keys", option);
  if (facts.rows == 0)
    user_error("{}: the {} patches of {} are not a square grid", option, facts.patches, facts.layers.front());
}

std::vector<double> principal_components(std::span<const float> rows, std::size_t width,
                                         std::size_t components) {
  const std::size_t count = rows.size() / width;
  std::vector<double> mean(width), covariance(width * width), values(width), vectors(width * width);
  for (std::size_t i = 0; i < rows.size(); ++i) mean[i % width] += static_cast<double>(rows[i]);
  for (double& m : mean) m /= static_cast<double>(count);
  std::vector<double> centred(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) centred[i] = static_cast<double>(rows[i]) - mean[i % width];
  for (std::size_t r = 0; r < count; ++r) {
    const double* row = centred.data() + r * width;
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t j = 0; j <= i; ++j) covariance[i * width + j] += row[i] * row[j];
    }
  }
  for (double& entry : covariance) entry /= static_cast<double>(count);
  eigh({1, width, width}, covariance, values, vectors);
  std::vector<double> projected(count * components);
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t c = 0; c < std::min(components, width); ++c) {
      double sum = 0;
      for (std::size_t i = 0; i < width; ++i) sum += centred[r * width + i] * vectors[i * width + c];
      projected[r * components + c] = sum;
    }
  }
  return projected;
}

DrawnImage draw_pca_maps(const PcaPictures& p) {
  const auto width = static_cast<std::size_t>(p.facts.width);
  const std::vector<std::uint8_t> bytes = as_bytes(principal_components(p.rows, width, kColours));
  const std::int64_t patches = p.facts.patches;
  const std::int64_t images = std::ssize(p.rows) / (patches * p.facts.width);
  const std::int64_t height = p.image.at(1), columns = p.image.at(2);
  const std::int64_t factor = std::max<std::int64_t>(1, kLeastCell / std::max(height, columns));
  ContactSheet sheet({.rows = (images + kPairsInRow - 1) / kPairsInRow,
                      .columns = 2 * std::min(images, kPairsInRow),
                      .cell_height = factor * height,
                      .cell_width = factor * columns});
  const auto pixels = static_cast<std::size_t>(ir::element_count(p.image));
  for (std::int64_t i = 0; i < images; ++i) {
    const std::int64_t row = i / kPairsInRow, column = 2 * (i % kPairsInRow);
    const std::vector<std::uint8_t> shown = unnormalised(
        p.pixels.subspan(static_cast<std::size_t>(i) * pixels, pixels), p.image.at(0), p.transforms);
    sheet.put(row, column, shown, p.image.at(0), height, columns);
    // Channel by channel; each patch fills the pixels that it covers.
    std::vector<std::uint8_t> map(kColours * static_cast<std::size_t>(height * columns));
    for (std::size_t at = 0; at < map.size(); ++at) {
      const auto place = static_cast<std::int64_t>(at) % (height * columns);
      const std::int64_t r = place / columns * p.facts.rows / height,
                         c = place % columns * p.facts.columns / columns;
      const auto patch = static_cast<std::size_t>(i * patches + r * p.facts.columns + c);
      map[at] = bytes[patch * kColours + at / static_cast<std::size_t>(height * columns)];
    }
    sheet.put(row, column + 1, map, kColours, height, columns);
  }
  return sheet.image();
}

}  // namespace rewire::runtime

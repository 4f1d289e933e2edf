#include "runtime/data/vision/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "codegen/library/vector_clones.h"

namespace rewire::runtime {
namespace {

constexpr int kFractionBits = 22;

double support_of(Filter filter) {
  return filter == Filter::bilinear ? 1 : 2;
}

double weight(Filter filter, double x) {
  x = std::abs(x);
  if (filter == Filter::bilinear) return x < 1 ? 1 - x : 0;
  constexpr double kA = -0.5;
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

/// The sources of each pixel along an axis: `most` taps per pixel, whose weights beyond `counts` are zero.
struct Taps {
  std::int64_t most = 0;
  std::vector<std::int64_t> first;    // [pixels]
  std::vector<std::int64_t> counts;   // [pixels]
  std::vector<std::int32_t> weights;  // [pixels, most], of 22 fraction bits
};

/// Returns the taps of pixels [begin, begin + count) of an axis that is scaled from `from` to `to`.
Taps taps_of(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t count, Filter filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(scale, 1.0);
  const double support = support_of(filter) * stretch, inverse_stretch = 1 / stretch;
  Taps taps;
  taps.most = static_cast<std::int64_t>(std::ceil(support)) * 2 + 1;
  taps.weights.resize(static_cast<std::size_t>(taps.most * count));
  std::vector<double> exact(static_cast<std::size_t>(taps.most));
  for (std::int64_t pixel = 0; pixel < count; ++pixel) {
    const double centre = (static_cast<double>(begin + pixel) + 0.5) * scale;
    const auto first = static_cast<std::int64_t>(std::max(centre - support + 0.5, 0.0));
    const auto last = std::min(static_cast<std::int64_t>(centre + support + 0.5), from);
    double sum = 0;
    for (std::int64_t i = first; i < last; ++i) {
      const double value = weight(filter, (static_cast<double>(i) - centre + 0.5) * inverse_stretch);
      exact[static_cast<std::size_t>(i - first)] = value;
      sum += value;
    }
    const double inverse_sum = 1 / sum;
    for (std::int64_t i = 0; i < last - first; ++i) {
      const double fraction = exact[static_cast<std::size_t>(i)] * inverse_sum * (1 << kFractionBits);
      taps.weights[static_cast<std::size_t>(pixel * taps.most + i)] =
          static_cast<std::int32_t>(fraction + (fraction < 0 ? -0.5 : 0.5));
    }
    taps.first.push_back(first);
    taps.counts.push_back(last - first);
  }
  return taps;
}

/// Returns the range of the sources of pixels [begin, begin + count), perhaps with one more at each end.
std::pair<std::int64_t, std::int64_t> span_of(std::int64_t from, std::int64_t to, std::int64_t begin,
                                              std::int64_t count, Filter filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = support_of(filter) * std::max(scale, 1.0) + 1;
  const auto first = static_cast<std::int64_t>((static_cast<double>(begin) + 0.5) * scale - reach);
  const auto last = static_cast<std::int64_t>((static_cast<double>(begin + count) - 0.5) * scale + reach) + 1;
  return {std::max<std::int64_t>(first, 0), std::min(last, from)};
}

constexpr std::int64_t kBlock = 64;

/// out[x] = the weighted sum of `count` rows at x, for x in [0, width). It is a sum of integers, so that
/// every version gives the same.
REWIRE_VECTOR_CLONES
void blend_rows(const std::uint8_t* __restrict rows, std::int64_t stride,
                const std::int32_t* __restrict weights, std::int64_t count, std::int64_t width,
                std::uint8_t* __restrict out) {
  for (std::int64_t begin = 0; begin < width; begin += kBlock) {
    const std::int64_t block = std::min(kBlock, width - begin);
    std::int32_t sums[kBlock];
    for (std::int32_t& sum : sums) sum = 1 << (kFractionBits - 1);
    if (block == kBlock) {
      for (std::int64_t k = 0; k < count; ++k) {
        const std::uint8_t* row = rows + k * stride + begin;
        const std::int32_t w = weights[k];
        for (std::int64_t x = 0; x < kBlock; ++x) sums[x] += w * row[x];
      }
    } else {
      for (std::int64_t k = 0; k < count; ++k) {
        const std::uint8_t* row = rows + k * stride + begin;
        const std::int32_t w = weights[k];
        for (std::int64_t x = 0; x < block; ++x) sums[x] += w * row[x];
      }
    }
    for (std::int64_t x = 0; x < block; ++x)
      out[begin + x] = static_cast<std::uint8_t>(std::clamp(sums[x] >> kFractionBits, 0, 255));
  }
}

/// Scales a plane along its columns to [taps.first.size(), width].
void scale_rows(const std::uint8_t* plane, std::int64_t stride, std::int64_t width, const Taps& taps,
                std::uint8_t* out) {
  for (std::size_t y = 0; y < taps.first.size(); ++y)
    blend_rows(plane + taps.first[y] * stride, stride,
               taps.weights.data() + static_cast<std::int64_t>(y) * taps.most, taps.counts[y], width,
               out + static_cast<std::int64_t>(y) * width);
}

constexpr std::int64_t kSide = 8;  // of a block that is transposed in eight registers

/// Exchanges bits between words that are `apart` from each other: those of `mask` in one word, which are
/// `shift` higher in the other.
template <int apart, int shift, std::uint64_t mask>
void exchange_bits(std::uint64_t (&words)[kSide]) {
  for (int i = 0; i < kSide; ++i) {
    if ((i & apart) != 0) continue;
    const std::uint64_t differing = (words[i] >> shift ^ words[i + apart]) & mask;
    words[i] ^= differing << shift;
    words[i + apart] ^= differing;
  }
}

void transpose_block(const std::uint8_t* in, std::int64_t in_stride, std::uint8_t* out,
                     std::int64_t out_stride) {
  std::uint64_t words[kSide];
  for (std::int64_t i = 0; i < kSide; ++i) std::memcpy(&words[i], in + i * in_stride, sizeof words[i]);
  exchange_bits<4, 32, 0x00000000ffffffff>(words);
  exchange_bits<2, 16, 0x0000ffff0000ffff>(words);
  exchange_bits<1, 8, 0x00ff00ff00ff00ff>(words);
  for (std::int64_t i = 0; i < kSide; ++i) std::memcpy(out + i * out_stride, &words[i], sizeof words[i]);
}

/// Writes out [columns, rows]. The blocks of a band follow each other in the output.
void transpose(const std::uint8_t* in, std::int64_t stride, std::int64_t rows, std::int64_t columns,
               std::uint8_t* out) {
  const std::int64_t whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
  for (std::int64_t x = 0; x < whole_columns; x += kSide) {
    for (std::int64_t y = 0; y < whole_rows; y += kSide)
      transpose_block(in + y * stride + x, stride, out + x * rows + y, rows);
  }
  for (std::int64_t y = 0; y < rows; ++y) {
    for (std::int64_t x = y < whole_rows ? whole_columns : 0; x < columns; ++x)
      out[x * rows + y] = in[y * stride + x];
  }
}

}  // namespace

Box looked_at(const Frame& frame, Filter filter) {
  const auto& [source, height, width, window] = frame;
  const auto [top, bottom] = span_of(source.height, height, window.top, window.height, filter);
  const auto [left, right] = span_of(source.width, width, window.left, window.width, filter);
  return {source.top + top, source.left + left, bottom - top, right - left};
}

void resample(std::span<const std::uint8_t> image, std::int64_t rows, std::int64_t columns,
              const Frame& frame, Filter filter, std::span<std::uint8_t> out) {
  const auto& [source, height, width, window] = frame;
  Taps across = taps_of(source.width, width, window.left, window.width, filter);
  Taps down = taps_of(source.height, height, window.top, window.height, filter);
  // The rows and columns that the window's pixels depend on.
  const std::int64_t top = down.first.front(), bottom = down.first.back() + down.counts.back();
  const std::int64_t left = across.first.front(), right = across.first.back() + across.counts.back();
  const std::int64_t used = bottom - top, reach = right - left;
  const std::int64_t plane_size = window.height * window.width;
  // Rows are blended as columns are, after a transposition: vectors run along pixels
  // that have the same weights.
  std::vector<std::uint8_t> sideways(static_cast<std::size_t>(reach * used)),
      scaled(static_cast<std::size_t>(window.width * used)),
      upright(static_cast<std::size_t>(used * window.width));
  for (std::int64_t& first : across.first) first -= left;
  for (std::int64_t& first : down.first) first -= top;
  for (std::int64_t channel = 0; channel * rows * columns < std::ssize(image); ++channel) {
    const std::uint8_t* plane =
        image.data() + channel * rows * columns + (source.top + top) * columns + source.left;
    std::uint8_t* made = out.data() + channel * plane_size;
    transpose(plane + left, columns, used, reach, sideways.data());
    scale_rows(sideways.data(), used, used, across, scaled.data());
    transpose(scaled.data(), used, window.width, used, upright.data());
    scale_rows(upright.data(), window.width, window.width, down, made);
  }
}

}  // namespace rewire::runtime

#include "runtime/data/vision/augment_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>

#include "codegen/library/vector_clones.h"

namespace rewire::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "taps are cut out of words");

using ByteTable = std::array<std::uint8_t, 256>;

void map_bytes(const ByteTable& table, std::uint8_t* pixels, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) pixels[i] = table[pixels[i]];
}

using ByteCounts = std::array<std::int64_t, 256>;

/// Counts in four tables, since a run of equal bytes would wait for a single counter.
ByteCounts histogram_of(const std::uint8_t* pixels, std::int64_t size) {
  std::array<std::array<std::uint32_t, 256>, 4> parts{};
  std::int64_t i = 0;
  for (; i + 4 <= size; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) ++parts[k][pixels[i + static_cast<std::int64_t>(k)]];
  }
  for (; i < size; ++i) ++parts[0][pixels[i]];
  ByteCounts counts;
  for (std::size_t v = 0; v < counts.size(); ++v)
    counts[v] = std::int64_t{parts[0][v]} + parts[1][v] + parts[2][v] + parts[3][v];
  return counts;
}

/// Maps each channel by the table that `make` computes from its histogram.
template <class Make>
void through_tables(Picture picture, Make make) {
  const std::int64_t size = picture.height * picture.width;
  for (std::int64_t channel = 0; channel < picture.channels; ++channel) {
    std::uint8_t* plane = picture.pixels.data() + channel * size;
    ByteTable table;
    if (make(histogram_of(plane, size), table)) map_bytes(table, plane, size);
  }
}

REWIRE_VECTOR_CLONES
void keep_bits(std::uint8_t* pixels, std::int64_t size, std::uint8_t mask) {
  for (std::int64_t i = 0; i < size; ++i) pixels[i] &= mask;
}

REWIRE_VECTOR_CLONES
void flip_bits(std::uint8_t* pixels, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) pixels[i] = static_cast<std::uint8_t>(~pixels[i]);
}

REWIRE_VECTOR_CLONES
void add_below_middle(std::uint8_t* pixels, std::int64_t size, std::uint8_t amount) {
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint8_t pixel = pixels[i];
    const auto sum = static_cast<std::uint8_t>(pixel + std::min<std::uint8_t>(amount, 255 - pixel));
    pixels[i] = pixel < 128 ? sum : pixel;
  }
}

/// out = from + factor (to - from), truncated to integers in [0, 255]. `out` may be `to`.
REWIRE_FLOAT_CLONES
void blend_towards(const std::uint8_t* __restrict from, std::uint8_t* to, std::int64_t size, float factor) {
  for (std::int64_t i = 0; i < size; ++i) {
    const int first = from[i], difference = to[i] - first;
    const float value = static_cast<float>(first) + factor * static_cast<float>(difference);
    to[i] = static_cast<std::uint8_t>(static_cast<int>(std::min(std::max(value, 0.0F), 255.0F)));
  }
}

/// A row without its ends: the rounded mean of nine pixels, the middle one counted five
/// times. 5042 / 2^16 is 1/13 here.
REWIRE_VECTOR_CLONES
void smooth_row(const std::uint8_t* __restrict above, const std::uint8_t* __restrict row,
                const std::uint8_t* __restrict below, std::int64_t width, std::uint8_t* __restrict out) {
  for (std::int64_t x = 1; x < width - 1; ++x) {
    const int sum = above[x - 1] + above[x] + above[x + 1] + row[x - 1] + 5 * row[x] + row[x + 1] +
                    below[x - 1] + below[x] + below[x + 1];
    out[x] = static_cast<std::uint8_t>((static_cast<std::uint32_t>(sum) + 6) * 5042 >> 16);
  }
}

// ---- affine maps ----

/// Columns and rows that a copy of a plane has beyond each edge. They repeat the
/// edge, as far as a cubic reaches.
constexpr std::int64_t kPlaneMargin = 2;

struct WidePlanes {
  std::int64_t stride = 0, size = 0;  // of a row, of a plane
  std::unique_ptr<std::uint8_t[]> pixels;

  /// Returns the address of pixel (0, 0).
  const std::uint8_t* plane(std::int64_t channel) const {
    return pixels.get() + channel * size + kPlaneMargin * stride + kPlaneMargin;
  }
};

WidePlanes with_margins(Picture picture) {
  const std::int64_t height = picture.height, width = picture.width;
  WidePlanes planes;
  planes.stride = width + 2 * kPlaneMargin;
  planes.size = planes.stride * (height + 2 * kPlaneMargin);
  planes.pixels = std::make_unique_for_overwrite<std::uint8_t[]>(
      static_cast<std::size_t>(picture.channels * planes.size));
  for (std::int64_t channel = 0; channel < picture.channels; ++channel) {
    const std::uint8_t* in = picture.pixels.data() + channel * height * width;
    std::uint8_t* out = planes.pixels.get() + channel * planes.size;
    for (std::int64_t y = -kPlaneMargin; y < height + kPlaneMargin; ++y, out += planes.stride) {
      const std::uint8_t* row = in + std::clamp<std::int64_t>(y, 0, height - 1) * width;
      std::memset(out, row[0], kPlaneMargin);
      std::memcpy(out + kPlaneMargin, row, static_cast<std::size_t>(width));
      std::memset(out + kPlaneMargin + width, row[width - 1], kPlaneMargin);
    }
  }
  return planes;
}

/// Weights of the four taps around a place. The second tap has what the others leave of 1,
/// so that even areas stay even.
struct TapWeights {
  float first, third, fourth;
};

TapWeights weights_of(double fraction, Interpolation interpolation) {
  const auto d = static_cast<float>(fraction);
  if (interpolation == Interpolation::bilinear) return {0, d, 0};
  return {d * (d * (2 - d) - 1), d * (1 + d * (1 - d)), d * d * (d - 1)};
}

/// Blends rows whose pixels all have the same weights: shifts and horizontal shears.
REWIRE_FLOAT_CLONES
void blend_four(const std::uint8_t* __restrict a, const std::uint8_t* __restrict b,
                const std::uint8_t* __restrict c, const std::uint8_t* __restrict d, TapWeights w,
                std::int64_t size, std::uint8_t* __restrict out) {
  for (std::int64_t i = 0; i < size; ++i) {
    const int middle = b[i];
    const float value = static_cast<float>(middle) + w.first * static_cast<float>(a[i] - middle) +
                        w.third * static_cast<float>(c[i] - middle) +
                        w.fourth * static_cast<float>(d[i] - middle);
    out[i] = static_cast<std::uint8_t>(static_cast<int>(std::min(std::max(value, 0.0F), 255.0F)));
  }
}

constexpr std::int64_t kRowPart = 64;

/// The sources of the pixels of a part of a row: the first tap's place in a plane,
/// and the weights of the taps.
struct TapPlaces {
  std::int32_t at[kRowPart];
  float across[3][kRowPart], down[3][kRowPart];
};

/// Finds the taps of pixels x to x + count of row y, which all come from inside the picture.
REWIRE_FLOAT_CLONES
void find_places(const double* __restrict m, double x, double y, std::int64_t count, std::int64_t stride,
                 bool is_cubic, TapPlaces& places) {
  const double m0 = m[0], m1 = m[1], m2 = m[2], m3 = m[3], m4 = m[4], m5 = m[5], middle = y + 0.5;
  const auto step = static_cast<std::int32_t>(stride);
  const std::int32_t reach = is_cubic ? 1 : 0;
  float right[kRowPart], below[kRowPart];
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(count); ++i) {
    const double column = x + 0.5 + i;
    const double u = m0 * column + m1 * middle + m2 - 0.5, v = m3 * column + m4 * middle + m5 - 0.5;
    const auto left = static_cast<std::int32_t>(u + 1) - 1, top = static_cast<std::int32_t>(v + 1) - 1;
    places.at[i] = (top - reach) * step + left - reach;
    right[i] = static_cast<float>(u - left);
    below[i] = static_cast<float>(v - top);
  }
  const auto cubic = [count](const float* __restrict fractions, float(&weights)[3][kRowPart]) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float d = fractions[i];
      weights[0][i] = d * (d * (2 - d) - 1);
      weights[1][i] = d * (1 + d * (1 - d));
      weights[2][i] = d * d * (d - 1);
    }
  };
  if (is_cubic) {
    cubic(right, places.across);
    cubic(below, places.down);
  } else {
    std::copy_n(right, count, places.across[1]);
    std::copy_n(below, count, places.down[1]);
  }
}

/// Loads the taps of each place in `Rows` rows; a word has the taps of a row. It has no versions for vector
/// units, whose gather loads take longer than plain ones.
template <class Word, std::int64_t Rows>
void load_taps(const std::uint8_t* __restrict plane, std::int64_t stride,
               const std::int32_t* __restrict places, std::int64_t count, Word (*__restrict taps)[kRowPart]) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t* from = plane + places[i];
    for (std::int64_t k = 0; k < Rows; ++k) std::memcpy(&taps[k][i], from + k * stride, sizeof(Word));
  }
}

/// Computes all of a part. Pixels beyond the end of the row are not used.
REWIRE_FLOAT_CLONES
void weigh_sixteen(const std::uint32_t (*__restrict taps)[kRowPart], const TapPlaces& __restrict places,
                   std::uint8_t* __restrict out) {
  float rows[4][kRowPart];
  for (std::int64_t k = 0; k < 4; ++k) {
    for (std::int64_t i = 0; i < kRowPart; ++i) {
      const auto word = static_cast<std::int32_t>(taps[k][i]);
      const std::int32_t middle = word >> 8 & 255;
      rows[k][i] = static_cast<float>(middle) +
                   places.across[0][i] * static_cast<float>((word & 255) - middle) +
                   places.across[1][i] * static_cast<float>((word >> 16 & 255) - middle) +
                   places.across[2][i] * static_cast<float>((word >> 24 & 255) - middle);
    }
  }
  for (std::int64_t i = 0; i < kRowPart; ++i) {
    const float middle = rows[1][i];
    const float value = middle + places.down[0][i] * (rows[0][i] - middle) +
                        places.down[1][i] * (rows[2][i] - middle) + places.down[2][i] * (rows[3][i] - middle);
    out[i] = static_cast<std::uint8_t>(static_cast<int>(std::min(std::max(value, 0.0F), 255.0F)));
  }
}

REWIRE_FLOAT_CLONES
void weigh_four(const std::uint16_t (*__restrict taps)[kRowPart], const TapPlaces& __restrict places,
                std::uint8_t* __restrict out) {
  for (std::int64_t i = 0; i < kRowPart; ++i) {
    const int a = taps[0][i] & 255, b = taps[0][i] >> 8, c = taps[1][i] & 255, d = taps[1][i] >> 8;
    const float over = static_cast<float>(a) + static_cast<float>(b - a) * places.across[1][i];
    const float under = static_cast<float>(c) + static_cast<float>(d - c) * places.across[1][i];
    out[i] = static_cast<std::uint8_t>(static_cast<int>(over + (under - over) * places.down[1][i]));
  }
}

/// Returns the pixels [begin, end) of row `y` for which `is_inside(x)` holds; they are
/// contiguous. Fills the others.
template <class IsInside>
std::pair<std::int64_t, std::int64_t> fill_outside(Picture picture, std::int64_t y,
                                                   std::span<const std::uint8_t> fill,
                                                   const IsInside& is_inside) {
  std::int64_t begin = 0, end = picture.width;
  while (begin < end && !is_inside(begin)) ++begin;
  while (begin < end && !is_inside(end - 1)) --end;
  for (std::int64_t channel = 0; channel < picture.channels; ++channel) {
    std::uint8_t* row = picture.pixels.data() + (channel * picture.height + y) * picture.width;
    const std::uint8_t colour = fill[static_cast<std::size_t>(channel)];
    std::fill(row, row + begin, colour);
    std::fill(row + end, row + picture.width, colour);
  }
  return {begin, end};
}

void map_between_pixels(Picture picture, const AffineMap& m, Interpolation interpolation,
                        std::span<const std::uint8_t> fill) {
  const std::int64_t width = picture.width, height = picture.height;
  const auto right = static_cast<double>(width), bottom = static_cast<double>(height);
  const WidePlanes planes = with_margins(picture);
  const std::int64_t stride = planes.stride;
  const bool is_cubic = interpolation == Interpolation::bicubic;
  TapPlaces places{};
  std::uint32_t cubic_taps[4][kRowPart] = {};
  std::uint16_t linear_taps[2][kRowPart] = {};
  for (std::int64_t y = 0; y < height; ++y) {
    const double middle = static_cast<double>(y) + 0.5;
    const auto source = [&](std::int64_t x) {
      const double column = static_cast<double>(x) + 0.5;
      return std::pair(m[0] * column + m[1] * middle + m[2], m[3] * column + m[4] * middle + m[5]);
    };
    const auto [begin, end] = fill_outside(picture, y, fill, [&](std::int64_t x) {
      const auto [u, v] = source(x);
      return u >= 0 && u < right && v >= 0 && v < bottom;
    });
    if (begin == end) continue;
    const auto out = [&, row = y](std::int64_t channel, std::int64_t x) {
      return picture.pixels.data() + (channel * height + row) * width + x;
    };
    if (m[0] == 1 && m[3] == 0) {
      const auto [u, v] = source(begin);
      const double left = std::floor(u - 0.5), top = std::floor(v - 0.5);
      const double across = u - 0.5 - left, down = v - 0.5 - top;
      if (across == 0 || down == 0) {
        const std::int64_t step = across == 0 ? stride : 1;
        const TapWeights weights = weights_of(across == 0 ? down : across, interpolation);
        for (std::int64_t channel = 0; channel < picture.channels; ++channel) {
          const std::uint8_t* from = planes.plane(channel) + static_cast<std::int64_t>(top) * stride +
                                     static_cast<std::int64_t>(left);
          blend_four(from - step, from, from + step, from + 2 * step, weights, end - begin,
                     out(channel, begin));
        }
        continue;
      }
    }
    for (std::int64_t x = begin; x < end; x += kRowPart) {
      const std::int64_t count = std::min(kRowPart, end - x);
      find_places(m.data(), static_cast<double>(x), static_cast<double>(y), count, stride, is_cubic, places);
      for (std::int64_t channel = 0; channel < picture.channels; ++channel) {
        std::uint8_t made[kRowPart];
        if (is_cubic) {
          load_taps<std::uint32_t, 4>(planes.plane(channel), stride, places.at, count, cubic_taps);
          weigh_sixteen(cubic_taps, places, made);
        } else {
          load_taps<std::uint16_t, 2>(planes.plane(channel), stride, places.at, count, linear_taps);
          weigh_four(linear_taps, places, made);
        }
        std::memcpy(out(channel, x), made, static_cast<std::size_t>(count));
      }
    }
  }
}

REWIRE_VECTOR_CLONES
void find_nearest(std::int64_t u, std::int64_t v, std::int64_t across, std::int64_t down, std::int64_t count,
                  std::int64_t stride, std::int32_t* __restrict at) {
  for (std::int64_t i = 0; i < count; ++i)
    at[i] = static_cast<std::int32_t>(((v + i * down) >> 16) * stride + ((u + i * across) >> 16));
}

/// Computes in fixed point with 16 fraction bits.
void map_to_nearest(Picture picture, const AffineMap& m, std::span<const std::uint8_t> fill) {
  const std::int64_t width = picture.width, height = picture.height;
  const WidePlanes planes = with_margins(picture);
  const auto fixed = [](double value) {
    return static_cast<std::int64_t>(std::floor(value * 65536.0 + 0.5));
  };
  const std::int64_t m0 = fixed(m[0]), m1 = fixed(m[1]), m3 = fixed(m[3]), m4 = fixed(m[4]);
  std::int64_t u = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), v = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  for (std::int64_t y = 0; y < height; ++y, u += m1, v += m4) {
    const auto [begin, end] = fill_outside(picture, y, fill, [&](std::int64_t x) {
      const std::int64_t column = (u + x * m0) >> 16, row = (v + x * m3) >> 16;
      return column >= 0 && column < width && row >= 0 && row < height;
    });
    if (m0 == 65536 && m3 == 0 && begin < end) {
      const std::int64_t at = (v >> 16) * planes.stride + ((u + begin * m0) >> 16);
      for (std::int64_t channel = 0; channel < picture.channels; ++channel)
        std::copy_n(planes.plane(channel) + at, end - begin,
                    picture.pixels.data() + (channel * height + y) * width + begin);
      continue;
    }
    for (std::int64_t x = begin; x < end; x += kRowPart) {
      const std::int64_t count = std::min(kRowPart, end - x);
      std::int32_t at[kRowPart];
      find_nearest(u + x * m0, v + x * m3, m0, m3, count, planes.stride, at);
      for (std::int64_t channel = 0; channel < picture.channels; ++channel) {
        const std::uint8_t* __restrict from = planes.plane(channel);
        std::uint8_t* __restrict out = picture.pixels.data() + (channel * height + y) * width + x;
        for (std::int64_t i = 0; i < count; ++i) out[i] = from[at[i]];
      }
    }
  }
}

}  // namespace

void posterize(Picture picture, int bits) {
  keep_bits(picture.pixels.data(), std::ssize(picture.pixels), static_cast<std::uint8_t>(0xFF00 >> bits));
}

void solarize_add(Picture picture, int amount) {
  add_below_middle(picture.pixels.data(), std::ssize(picture.pixels), static_cast<std::uint8_t>(amount));
}

void invert(Picture picture) {
  flip_bits(picture.pixels.data(), std::ssize(picture.pixels));
}

void auto_contrast(Picture picture) {
  through_tables(picture, [](const ByteCounts& counts, ByteTable& table) {
    int low = 0, high = 255;
    while (low < 255 && counts[static_cast<std::size_t>(low)] == 0) ++low;
    while (high > 0 && counts[static_cast<std::size_t>(high)] == 0) --high;
    if (high <= low) return false;
    const double scale = 255.0 / (high - low), offset = -low * scale;
    for (int value = 0; value < 256; ++value)
      table[static_cast<std::size_t>(value)] =
          static_cast<std::uint8_t>(std::clamp(static_cast<int>(value * scale + offset), 0, 255));
    return true;
  });
}

void equalize(Picture picture) {
  const std::int64_t size = picture.height * picture.width;
  through_tables(picture, [size](const ByteCounts& counts, ByteTable& table) {
    std::size_t last = 255;
    while (last > 0 && counts[last] == 0) --last;
    const std::int64_t step = (size - counts[last]) / 255;
    if (step == 0) return false;
    std::int64_t sum = step / 2;
    for (std::size_t value = 0; value < table.size(); ++value) {
      table[value] = static_cast<std::uint8_t>(std::min<std::int64_t>(sum / step, 255));
      sum += counts[value];
    }
    return true;
  });
}

void adjust_sharpness(Picture picture, float factor) {
  const std::int64_t height = picture.height, width = picture.width, size = height * width;
  if (height < 3 || width < 3) return;  // the edges have no nine neighbours, and stay
  const auto smooth = std::make_unique_for_overwrite<std::uint8_t[]>(static_cast<std::size_t>(size));
  for (std::int64_t channel = 0; channel < picture.channels; ++channel) {
    std::uint8_t* plane = picture.pixels.data() + channel * size;
    for (std::int64_t y = 1; y < height - 1; ++y) {
      const std::uint8_t* row = plane + y * width;
      std::uint8_t* out = smooth.get() + y * width;
      out[0] = row[0];
      out[width - 1] = row[width - 1];
      smooth_row(row - width, row, row + width, width, out);
    }
    blend_towards(smooth.get() + width, plane + width, size - 2 * width, factor);
  }
}

AffineMap rotation(double degrees, std::int64_t height, std::int64_t width) {
  // Rounds to 15 decimals, as Pillow does.
  const auto rounded = [](double value) { return std::nearbyint(value * 1e15) / 1e15; };
  const double angle = -degrees * std::numbers::pi / 180;
  const double cosine = rounded(std::cos(angle)), sine = rounded(std::sin(angle));
  const double x = static_cast<double>(width) / 2, y = static_cast<double>(height) / 2;
  return {cosine, sine, cosine * -x + sine * -y + x, -sine, cosine, -sine * -x + cosine * -y + y};
}

void apply_affine(Picture picture, const AffineMap& map, Interpolation interpolation,
                  std::span<const std::uint8_t> fill) {
  if (interpolation == Interpolation::nearest) {
    map_to_nearest(picture, map, fill);
  } else {
    map_between_pixels(picture, map, interpolation, fill);
  }
}

}  // namespace rewire::runtime

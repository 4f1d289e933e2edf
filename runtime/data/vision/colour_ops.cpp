#include "runtime/data/vision/colour_ops.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "codegen/library/vector_clones.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kBlock = 64;  // pixels that are processed together

std::int64_t plane_size(const Picture& picture) {
  return picture.height * picture.width;
}

/// Truncates, and clamps to [0, 255].
inline std::uint8_t to_byte(float value) {
  value = value > 0 ? value : 0;
  value = value < 255 ? value : 255;
  return static_cast<std::uint8_t>(static_cast<int>(value));
}

/// Moves pixels along the line from `grey` (at 0) through themselves (at 1).
REWIRE_VECTOR_CLONES
void blend_with_grey(std::uint8_t* __restrict pixels, std::int64_t size, int grey, float factor) {
  const auto from = static_cast<float>(grey);
  for (std::int64_t i = 0; i < size; ++i)
    pixels[i] = to_byte(from + factor * static_cast<float>(pixels[i] - grey));
}

/// Does the same from the luma of each pixel.
REWIRE_VECTOR_CLONES
void blend_with_luma(std::uint8_t* __restrict red, std::uint8_t* __restrict green,
                     std::uint8_t* __restrict blue, std::int64_t size, float factor) {
  for (std::int64_t i = 0; i < size; ++i) {
    const int r = red[i], g = green[i], b = blue[i];
    const int grey = luma(r, g, b);
    const auto from = static_cast<float>(grey);
    red[i] = to_byte(from + factor * static_cast<float>(r - grey));
    green[i] = to_byte(from + factor * static_cast<float>(g - grey));
    blue[i] = to_byte(from + factor * static_cast<float>(b - grey));
  }
}

REWIRE_VECTOR_CLONES
void replace_by_luma(std::uint8_t* __restrict red, std::uint8_t* __restrict green,
                     std::uint8_t* __restrict blue, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint8_t grey = luma(red[i], green[i], blue[i]);
    red[i] = grey;
    green[i] = grey;
    blue[i] = grey;
  }
}

constexpr std::int64_t kSumBlock = 1 << 16;  // bytes whose sum surely fits 32 bits

REWIRE_VECTOR_CLONES
std::int64_t sum_of(const std::uint8_t* __restrict pixels, std::int64_t size) {
  std::int64_t sum = 0;
  for (std::int64_t begin = 0; begin < size; begin += kSumBlock) {
    const std::int64_t end = std::min(begin + kSumBlock, size);
    std::uint32_t part = 0;
    for (std::int64_t i = begin; i < end; ++i) part += pixels[i];
    sum += part;
  }
  return sum;
}

REWIRE_VECTOR_CLONES
std::int64_t sum_of_luma(const std::uint8_t* __restrict red, const std::uint8_t* __restrict green,
                         const std::uint8_t* __restrict blue, std::int64_t size) {
  std::int64_t sum = 0;
  for (std::int64_t begin = 0; begin < size; begin += kSumBlock) {
    const std::int64_t end = std::min(begin + kSumBlock, size);
    std::uint32_t part = 0;
    for (std::int64_t i = begin; i < end; ++i) part += luma(red[i], green[i], blue[i]);
    sum += part;
  }
  return sum;
}

/// Converts a block of pixels to hue, saturation and value in bytes, and back with `shift` added to the hue.
/// Each step has the precision and rounding of Pillow's, since truncation makes the last bit visible.
REWIRE_VECTOR_CLONES
void turn_hue(std::uint8_t* __restrict red, std::uint8_t* __restrict green, std::uint8_t* __restrict blue,
              std::int64_t size, int shift) {
  std::int32_t hues[kBlock], saturations[kBlock], values[kBlock];
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int32_t r = red[i], g = green[i], b = blue[i];
    const std::int32_t most = std::max(r, std::max(g, b)), least = std::min(r, std::min(g, b));
    const bool is_red = r == most, is_green = !is_red && g == most;
    // The hue is `sector` + (plus - minus) / range in sixths of the circle, each quotient a float.
    const std::int32_t sector = is_red ? 0 : is_green ? 2 : 4;
    const std::int32_t plus = most - (is_red ? b : is_green ? r : g);
    const std::int32_t minus = most - (is_red ? g : is_green ? b : r);
    const auto range = static_cast<float>(std::max(most - least, 1));
    const double sum = sector + double{static_cast<float>(plus) / range};
    const auto sixths = static_cast<float>(sum - double{static_cast<float>(minus) / range});
    const double turned = double{sixths} / 6.0 + 1.0;
    const auto hue = static_cast<float>(turned >= 1.0 ? turned - 1.0 : turned);
    const float saturation = static_cast<float>(most - least) / static_cast<float>(std::max(most, 1));
    hues[i] = (static_cast<std::int32_t>(double{hue} * 255.0) + shift) & 255;
    saturations[i] = static_cast<std::int32_t>(double{saturation} * 255.0);
    values[i] = most;
  }
  std::int32_t sectors[kBlock], low[kBlock], falling[kBlock], rising[kBlock];
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int32_t angle = hues[i] * 6, sector = angle / 255;
    const auto rest = static_cast<float>(static_cast<double>(angle) / 255.0 - sector);
    const auto saturation = static_cast<float>(static_cast<double>(saturations[i]) / 255.0);
    const double value = values[i];
    sectors[i] = sector;
    low[i] = static_cast<std::int32_t>(value * (1.0 - double{saturation}) + 0.5);
    falling[i] = static_cast<std::int32_t>(value * (1.0 - double{saturation * rest}) + 0.5);
    rising[i] = static_cast<std::int32_t>(value * (1.0 - double{saturation} * (1.0 - double{rest})) + 0.5);
  }
  // Chooses one after the other and by masks, since branches would not become vectors. Sector 6 is 0.
  const auto choose = [](bool condition, std::int32_t yes, std::int32_t no) {
    const std::int32_t mask = -static_cast<std::int32_t>(condition);
    return (yes & mask) | (no & ~mask);
  };
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int32_t sector = choose(sectors[i] == 6, 0, sectors[i]), value = values[i];
    const std::int32_t p = low[i], q = falling[i], t = rising[i];
    const std::int32_t r = choose(sector >> 1 == 1, p, choose(sector == 1, q, choose(sector == 4, t, value)));
    const std::int32_t g = choose(sector >= 4, p, choose(sector == 3, q, choose(sector == 0, t, value)));
    const std::int32_t b = choose(sector <= 1, p, choose(sector == 5, q, choose(sector == 2, t, value)));
    red[i] = static_cast<std::uint8_t>(r);
    green[i] = static_cast<std::uint8_t>(g);
    blue[i] = static_cast<std::uint8_t>(b);
  }
}

REWIRE_VECTOR_CLONES
void invert_from(std::uint8_t* __restrict pixels, std::int64_t size, std::uint8_t threshold) {
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint8_t pixel = pixels[i];
    pixels[i] = pixel >= threshold ? static_cast<std::uint8_t>(255 - pixel) : pixel;
  }
}

/// A box of 2 whole + 3 pixels; the outermost have a smaller weight. Weights have 24 fraction bits.
struct BlurBox {
  int whole = 0;
  std::uint32_t weight = 0, edge_weight = 0;
};

/// Returns the box that, applied three times, has about the variance of a Gaussian (Gwosdek et al., SSVM
/// 2011). Computes it in float32, as Pillow does.
BlurBox blur_box(double sigma) {
  const auto deviation = static_cast<float>(sigma);
  const float variance = deviation * deviation / 3;
  const auto length = static_cast<float>(std::sqrt(12.0 * double{variance} + 1.0));
  const auto l = static_cast<float>(std::floor((double{length} - 1.0) / 2.0));
  float fraction = (2 * l + 1) * (l * (l + 1) - 3 * variance);
  fraction /= 6 * (variance - (l + 1) * (l + 1));
  const float radius = l + fraction;
  BlurBox box{static_cast<int>(radius)};
  constexpr std::uint32_t kOne = 1U << 24;
  box.weight = static_cast<std::uint32_t>(static_cast<float>(kOne) / (radius * 2 + 1));
  box.edge_weight = (kOne - static_cast<std::uint32_t>(box.whole * 2 + 1) * box.weight) / 2;
  return box;
}

/// out[x] = the box's weighted sum of taps[k][x] over its pixels k.
REWIRE_VECTOR_CLONES
void blur_line(const std::uint8_t* const* taps, const BlurBox& box, std::int64_t width,
               std::uint8_t* __restrict out) {
  const std::int64_t last = 2 * std::int64_t{box.whole} + 2;
  const std::uint32_t weight = box.weight, edge_weight = box.edge_weight;
  for (std::int64_t begin = 0; begin < width; begin += kBlock) {
    // The last block moves back to be whole if there is room: some bytes are then computed twice.
    const std::int64_t block = std::min(kBlock, width);
    const std::int64_t first = std::min(begin, width - block);
    std::uint32_t sums[kBlock] = {};
    const std::uint8_t *left = taps[0] + first, *right = taps[last] + first;
    if (block == kBlock) {
      for (std::int64_t k = 1; k < last; ++k) {
        const std::uint8_t* tap = taps[k] + first;
        for (std::int64_t x = 0; x < kBlock; ++x) sums[x] += tap[x];
      }
    } else {
      for (std::int64_t k = 1; k < last; ++k) {
        const std::uint8_t* tap = taps[k] + first;
        for (std::int64_t x = 0; x < block; ++x) sums[x] += tap[x];
      }
    }
    for (std::int64_t x = 0; x < block; ++x) {
      const auto edges = static_cast<std::uint32_t>(left[x] + right[x]);
      out[first + x] = static_cast<std::uint8_t>((sums[x] * weight + edges * edge_weight + (1U << 23)) >> 24);
    }
  }
}

/// Blurs the planes of one picture.
class Blur {
 public:
  Blur(const BlurBox& box, std::int64_t height, std::int64_t width)
      : box_(box),
        reach_(box.whole + 1),
        height_(height),
        width_(width),
        taps_(static_cast<std::size_t>(2 * reach_ + 1)),
        line_(static_cast<std::size_t>(width + 2 * reach_)),
        other_(static_cast<std::size_t>(height * width)) {}

  void run(std::uint8_t* plane) {
    for (std::int64_t y = 0; y < height_; ++y) {
      for (int pass = 0; pass < 3; ++pass) along_row(plane + y * width_);
    }
    along_columns(plane, other_.data());
    along_columns(other_.data(), plane);
    along_columns(plane, other_.data());
    std::ranges::copy(other_, plane);
  }

 private:
  void along_row(std::uint8_t* row) {
    std::fill_n(line_.begin(), reach_, row[0]);
    std::copy_n(row, width_, line_.begin() + reach_);
    std::fill_n(line_.begin() + reach_ + width_, reach_, row[width_ - 1]);
    for (std::int64_t k = 0; k <= 2 * reach_; ++k) taps_[static_cast<std::size_t>(k)] = line_.data() + k;
    blur_line(taps_.data(), box_, width_, row);
  }

  void along_columns(const std::uint8_t* in, std::uint8_t* out) {
    for (std::int64_t y = 0; y < height_; ++y) {
      for (std::int64_t k = 0; k <= 2 * reach_; ++k) {
        taps_[static_cast<std::size_t>(k)] =
            in + std::clamp<std::int64_t>(y - reach_ + k, 0, height_ - 1) * width_;
      }
      blur_line(taps_.data(), box_, width_, out + y * width_);
    }
  }

  BlurBox box_;
  std::int64_t reach_, height_, width_;
  std::vector<const std::uint8_t*> taps_;  // of one line
  std::vector<std::uint8_t> line_;         // a row and its ends, repeated
  std::vector<std::uint8_t> other_;        // a plane
};

}  // namespace

void adjust_brightness(Picture picture, float factor) {
  blend_with_grey(picture.pixels.data(), std::ssize(picture.pixels), 0, factor);
}

void adjust_contrast(Picture picture, float factor) {
  const std::int64_t plane = plane_size(picture);
  std::uint8_t* pixels = picture.pixels.data();
  const bool has_colour = picture.channels == 3;
  const std::int64_t count = has_colour ? plane : std::ssize(picture.pixels);
  const std::int64_t sum =
      has_colour ? sum_of_luma(pixels, pixels + plane, pixels + 2 * plane, plane) : sum_of(pixels, count);
  const double mean = static_cast<double>(sum) / static_cast<double>(count);
  blend_with_grey(pixels, std::ssize(picture.pixels), static_cast<int>(mean + 0.5), factor);
}

void adjust_saturation(Picture picture, float factor) {
  if (picture.channels != 3) return;
  const std::int64_t plane = plane_size(picture);
  std::uint8_t* pixels = picture.pixels.data();
  blend_with_luma(pixels, pixels + plane, pixels + 2 * plane, plane, factor);
}

void adjust_hue(Picture picture, float factor) {
  if (picture.channels != 3) return;
  const std::int64_t plane = plane_size(picture);
  const int shift = static_cast<int>(double{factor} * 255.0) & 255;
  for (std::int64_t begin = 0; begin < plane; begin += kBlock) {
    std::uint8_t* pixels = picture.pixels.data() + begin;
    turn_hue(pixels, pixels + plane, pixels + 2 * plane, std::min(kBlock, plane - begin), shift);
  }
}

void to_grey(Picture picture) {
  if (picture.channels != 3) return;
  const std::int64_t plane = plane_size(picture);
  std::uint8_t* pixels = picture.pixels.data();
  replace_by_luma(pixels, pixels + plane, pixels + 2 * plane, plane);
}

void solarize(Picture picture, int threshold) {
  if (threshold > 255) return;
  invert_from(picture.pixels.data(), std::ssize(picture.pixels),
              static_cast<std::uint8_t>(std::max(threshold, 0)));
}

void gaussian_blur(Picture picture, double sigma) {
  const BlurBox box = blur_box(sigma);
  Blur blur(box, picture.height, picture.width);
  const std::int64_t plane = plane_size(picture);
  for (std::int64_t channel = 0; channel < picture.channels; ++channel)
    blur.run(picture.pixels.data() + channel * plane);
}

}  // namespace rewire::runtime

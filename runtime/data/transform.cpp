// The transform of one image: normalisation is a table of 256 floats a channel, crop and flip are an index of
// source rows and one of source columns.
#include "runtime/data/transform.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "ir/error.h"
#include "ir/philox.h"
#include "ir/tensor.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kByteValues = 256;

/// Uniform in [0, count), by the high word of a product.
std::int64_t below(std::uint32_t bits, std::int64_t count) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(bits) * static_cast<std::uint64_t>(count) >>
                                   32);
}

double of_channel(const std::vector<double>& values, std::int64_t channel) {
  return values[values.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
}

void check(const TransformOptions& options, std::int64_t channels, std::int64_t height, std::int64_t width) {
  for (const auto& [name, values] :
       {std::pair<std::string_view, const std::vector<double>&>{"mean", options.mean},
        {"std", options.deviation}}) {
    if (values.size() != 1 && values.size() != static_cast<std::size_t>(channels)) {
      user_error("transforms.{} has {} values; the images have {} channels: give 1 or {}", name,
                 values.size(), channels, channels);
    }
    for (const double value : values) {
      if (!std::isfinite(value)) user_error("transforms.{} has the value {}", name, value);
    }
  }
  for (const double deviation : options.deviation) {
    if (deviation <= 0) user_error("transforms.std has the value {}; it must be above 0", deviation);
  }
  const std::int64_t padding = options.crop_padding;
  if (padding < 0) user_error("transforms.crop_padding is {}; it must be 0 or more", padding);
  if (padding > kMostCropPadding)
    user_error("transforms.crop_padding is {}; it must be at most {}", padding, kMostCropPadding);
  if (options.crop_fill == CropFill::reflect && (padding >= height || padding >= width)) {
    user_error("transforms.crop_padding {} cannot reflect images of {} x {}: it must be below both", padding,
               height, width);
  }
}

}  // namespace

Transform::Transform(const TransformOptions& options, std::int64_t channels, std::int64_t height,
                     std::int64_t width)
    : channels_(channels),
      height_(height),
      width_(width),
      crop_padding_(options.crop_padding),
      crop_fill_(options.crop_fill),
      horizontal_flip_(options.horizontal_flip) {
  check(options, channels, height, width);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const double mean = of_channel(options.mean, channel);
    const double deviation = of_channel(options.deviation, channel);
    for (std::size_t byte = 0; byte < kByteValues; ++byte) {
      const double pixel = (static_cast<double>(byte) / 255.0 - mean) / deviation;
      if (!std::isfinite(ir::round_to(ir::DType::f32, pixel))) {
        user_error(
            "transforms.mean {} and transforms.std {} make {:.3g} of a pixel of {}/255: f32 has no such "
            "number",
            mean, deviation, pixel, byte);
      }
      normalised_.push_back(static_cast<float>(pixel));
    }
  }
}

Augmentation Transform::draw(std::uint64_t seed, std::int64_t epoch, std::int64_t sample) const {
  // One Philox block of four numbers a sample: dy, dx, flip, and one for what may come.
  const ir::PhiloxStream stream{seed, static_cast<std::uint32_t>(epoch), ir::stream_hash("data.augment")};
  const std::uint64_t first = static_cast<std::uint64_t>(sample) * 4;
  Augmentation augmentation;
  if (crop_padding_ > 0) {
    augmentation.dy = below(stream.bits(first), 2 * crop_padding_ + 1) - crop_padding_;
    augmentation.dx = below(stream.bits(first + 1), 2 * crop_padding_ + 1) - crop_padding_;
  }
  augmentation.flip = horizontal_flip_ && below(stream.bits(first + 2), 2) == 1;
  return augmentation;
}

std::vector<std::int32_t> Transform::sources(std::int64_t extent, std::int64_t offset, bool mirrored) const {
  std::vector<std::int32_t> index(static_cast<std::size_t>(extent));
  for (std::int64_t i = 0; i < extent; ++i) {
    std::int64_t source = (mirrored ? extent - 1 - i : i) + offset;
    if (source < 0 || source >= extent) {
      const std::int64_t reflected = source < 0 ? -source : 2 * (extent - 1) - source;
      source = crop_fill_ == CropFill::reflect ? reflected : kFill;
    }
    index[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(source);
  }
  return index;
}

void Transform::apply(std::span<const std::uint8_t> pixels, std::span<float> image,
                      const Augmentation& augmentation) const {
  const std::vector<std::int32_t> rows = sources(height_, augmentation.dy, false);
  const std::vector<std::int32_t> columns = sources(width_, augmentation.dx, augmentation.flip);
  float* out = image.data();
  for (std::int64_t channel = 0; channel < channels_; ++channel) {
    const float* table = normalised_.data() + static_cast<std::size_t>(channel) * kByteValues;
    const std::uint8_t* plane = pixels.data() + channel * height_ * width_;
    for (const std::int32_t row : rows) {
      if (row == kFill) {
        out = std::fill_n(out, width_, table[0]);
        continue;
      }
      const std::uint8_t* line = plane + std::int64_t{row} * width_;
      for (const std::int32_t column : columns) *out++ = table[column == kFill ? 0 : line[column]];
    }
  }
}

}  // namespace rewire::runtime

#include "runtime/data/vision/contact_sheet.h"

#include <algorithm>

#include "ir/error.h"
#include "runtime/data/vision/colour_ops.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/data/vision/resample.h"

namespace rewire::runtime {
namespace {

constexpr std::uint8_t kBackground = 128;

/// Returns the pixels in `wanted` channels, 1 or 3.
DrawnImage in_channels(std::span<const std::uint8_t> pixels, std::int64_t channels, std::int64_t height,
                       std::int64_t width, std::int64_t wanted) {
  DrawnImage image{wanted, height, width, {}};
  const auto plane = static_cast<std::size_t>(height * width);
  image.pixels.resize(static_cast<std::size_t>(wanted) * plane);
  const bool has_colours = channels >= 3;
  for (std::size_t i = 0; i < plane; ++i) {
    if (wanted == 1) {
      image.pixels[i] = has_colours ? luma(pixels[i], pixels[plane + i], pixels[2 * plane + i]) : pixels[i];
    } else {
      for (std::size_t c = 0; c < 3; ++c)
        image.pixels[c * plane + i] = pixels[(has_colours ? c : 0) * plane + i];
    }
  }
  return image;
}

DrawnImage enlarged(const DrawnImage& image, std::int64_t factor) {
  DrawnImage large{image.channels, image.height * factor, image.width * factor, {}};
  large.pixels.reserve(image.pixels.size() * static_cast<std::size_t>(factor * factor));
  for (std::int64_t row = 0; row < large.channels * large.height; ++row) {
    const std::int64_t from = row / factor * image.width;  // planes follow each other as rows do
    for (std::int64_t x = 0; x < large.width; ++x)
      large.pixels.push_back(image.pixels[static_cast<std::size_t>(from + x / factor)]);
  }
  return large;
}

DrawnImage shrunk(const DrawnImage& image, std::int64_t height, std::int64_t width) {
  DrawnImage small{image.channels, height, width, {}};
  small.pixels.resize(static_cast<std::size_t>(image.channels * height * width));
  const Frame frame{{0, 0, image.height, image.width}, height, width, {0, 0, height, width}};
  resample(image.pixels, image.height, image.width, frame, Filter::bilinear, small.pixels);
  return small;
}

DrawnImage fitted(const DrawnImage& image, std::int64_t height, std::int64_t width) {
  const std::int64_t factor = std::min(height / image.height, width / image.width);
  if (factor == 1) return image;
  if (factor > 1) return enlarged(image, factor);
  const auto part = [](std::int64_t extent, std::int64_t of, std::int64_t other) {
    return std::max<std::int64_t>((2 * extent * of + other) / (2 * other), 1);  // rounded
  };
  if (height * image.width <= width * image.height)
    return shrunk(image, height, std::min(part(image.width, height, image.height), width));
  return shrunk(image, std::min(part(image.height, width, image.width), height), width);
}

}  // namespace

ContactSheet::ContactSheet(const SheetLayout& layout) : layout_(layout) {
  sheet_.channels = layout.channels;
  sheet_.height = layout.rows * (layout.cell_height + layout.gap) + layout.gap;
  sheet_.width = layout.columns * (layout.cell_width + layout.gap) + layout.gap;
  if (sheet_.width > kMostImagePixels / sheet_.height) {
    user_error("a sheet of {} x {} pixels is more than the {} that an image may have: draw fewer images",
               sheet_.height, sheet_.width, kMostImagePixels);
  }
  sheet_.pixels.assign(static_cast<std::size_t>(sheet_.channels * sheet_.height * sheet_.width), kBackground);
}

void ContactSheet::put(std::int64_t row, std::int64_t column, std::span<const std::uint8_t> pixels,
                       std::int64_t channels, std::int64_t height, std::int64_t width) {
  const DrawnImage image = fitted(in_channels(pixels, channels, height, width, sheet_.channels),
                                  layout_.cell_height, layout_.cell_width);
  const std::int64_t top =
      layout_.gap + row * (layout_.cell_height + layout_.gap) + (layout_.cell_height - image.height) / 2;
  const std::int64_t left =
      layout_.gap + column * (layout_.cell_width + layout_.gap) + (layout_.cell_width - image.width) / 2;
  for (std::int64_t c = 0; c < image.channels; ++c) {
    for (std::int64_t y = 0; y < image.height; ++y) {
      std::copy_n(image.pixels.begin() + (c * image.height + y) * image.width, image.width,
                  sheet_.pixels.begin() + (c * sheet_.height + top + y) * sheet_.width + left);
    }
  }
}

}  // namespace rewire::runtime

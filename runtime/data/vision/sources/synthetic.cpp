// Learnable images without a file. Each class is a coarse random pattern, and each image is its class's
// pattern under noise. The splits share the patterns but no image. The bytes are the same on every machine.
#include <algorithm>

#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/data/vision/stored_images.h"
#include "runtime/device/process.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kPatternCells = 4;  // a class pattern is a grid of 4 x 4 grey levels a channel
constexpr int kPixelNoise = 48;            // added to a pixel: uniform in [-48, 48)
constexpr std::int64_t kAnyClasses = 10;   // if no labels are requested

/// Returns a byte of the stream. It comes from integers only, so that no machine rounds it differently.
int random_byte(const ir::PhiloxStream& stream, std::uint64_t index) {
  return static_cast<int>(stream.bits(index) >> 24);
}

void check_memory(std::int64_t count, const ir::Shape& image) {
  const std::int64_t memory = total_memory_bytes();
  std::int64_t bytes = count;
  bool fits = true;
  constexpr std::string_view kAxes[] = {"channels", "height", "width"};
  for (std::size_t axis = 0; axis < image.size(); ++axis) {
    if (image[axis] < 1)
      user_error("synthetic data: {} is {}; it must be 1 or more", kAxes[axis], image[axis]);
    fits = fits && !__builtin_mul_overflow(bytes, image[axis], &bytes);
  }
  if (!fits || bytes > memory) {
    user_error(
        "data.count is {}: that many synthetic images of {} x {} x {} bytes do not fit this machine's memory "
        "of {} MB; lower it",
        count, image[0], image[1], image[2], memory / 1'000'000);
  }
}

std::unique_ptr<Source> draw_images(const ir::Attributes& values, const SourceContext& asks) {
  const ImageContext context = image_context(asks);
  const std::int64_t count = values.get_int("count");
  const std::int64_t classes = context.classes == 0 ? kAnyClasses : context.classes;
  check_memory(count, context.image);
  const std::int64_t channels = context.image[0], height = context.image[1], width = context.image[2];
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  pixels.reserve(static_cast<std::size_t>(count * channels * height * width));
  labels.reserve(static_cast<std::size_t>(count));

  const ir::PhiloxStream patterns{context.seed, 0, ir::stream_hash("data.synthetic.pattern")};
  const ir::PhiloxStream noise{context.seed, context.split == Split::train ? 0U : 1U,
                               ir::stream_hash("data.synthetic.noise")};
  for (std::int64_t sample = 0; sample < count; ++sample) {
    const std::int64_t label = sample % classes;
    labels.push_back(static_cast<std::int32_t>(label));
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      for (std::int64_t y = 0; y < height; ++y) {
        for (std::int64_t x = 0; x < width; ++x) {
          const std::int64_t row = y * kPatternCells / height;
          const std::int64_t column = x * kPatternCells / width;
          const std::int64_t plane = label * channels + channel;
          const std::int64_t cell = (plane * kPatternCells + row) * kPatternCells + column;
          const int level = random_byte(patterns, static_cast<std::uint64_t>(cell));
          const int offset = random_byte(noise, pixels.size()) * 2 * kPixelNoise / 256 - kPixelNoise;
          pixels.push_back(static_cast<std::uint8_t>(std::clamp(level + offset, 0, 255)));
        }
      }
    }
  }
  return std::make_unique<StoredImages>("synthetic data", context.image, std::move(pixels),
                                        std::move(labels));
}

}  // namespace

extern const SourceRow kSyntheticSource{
    "synthetic",
    "learnable images made without files, with the network's size and classes",
    {ir::int_parameter("count", 1024, "images per split").at_least(1).at_most(1e9)},
    draw_images};

}  // namespace rewire::runtime

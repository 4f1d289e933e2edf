// The synthetic image set, and the check of labels against a model.
#include "runtime/data/dataset.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/device/process.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kPatternCells = 4;  // a class pattern is a grid of 4 x 4 grey levels a channel
constexpr int kPixelNoise = 48;            // added to a pixel: uniform in [-48, 48)

/// A byte of the stream: its numbers are integers all the way, so that no machine rounds them otherwise.
int random_byte(const ir::PhiloxStream& stream, std::uint64_t index) {
  return static_cast<int>(stream.bits(index) >> 24);
}

void check_sizes(const SyntheticOptions& options) {
  for (const auto& [name, value] : {std::pair<std::string_view, std::int64_t>{"count", options.count},
                                    {"classes", options.classes},
                                    {"channels", options.channels},
                                    {"height", options.height},
                                    {"width", options.width}}) {
    if (value < 1) user_error("synthetic data: {} is {}; it must be 1 or more", name, value);
  }
  const std::int64_t memory = total_memory_bytes();
  std::int64_t bytes = options.channels;
  const bool fits = !__builtin_mul_overflow(bytes, options.height, &bytes) &&
                    !__builtin_mul_overflow(bytes, options.width, &bytes) &&
                    !__builtin_mul_overflow(bytes, options.count, &bytes) && bytes <= memory;
  if (!fits) {
    user_error(
        "data.count is {}: so many synthetic images of {} x {} x {} bytes do not fit this machine's memory "
        "of {} MB; lower it",
        options.count, options.channels, options.height, options.width, memory / 1'000'000);
  }
}

}  // namespace

void check_labels(const Dataset& dataset, std::int64_t classes) {
  for (std::size_t i = 0; i < dataset.labels.size(); ++i) {
    if (dataset.labels[i] >= classes) {
      user_error("{}: sample {} has label {}, but the model has {} classes; raise model.classes",
                 dataset.name, i, dataset.labels[i], classes);
    }
  }
}

Dataset make_synthetic_dataset(const SyntheticOptions& options, Split split) {
  check_sizes(options);
  Dataset dataset;
  dataset.name = "synthetic data";
  dataset.count = options.count;
  dataset.channels = options.channels;
  dataset.height = options.height;
  dataset.width = options.width;
  dataset.labels.reserve(static_cast<std::size_t>(options.count));
  dataset.images.reserve(static_cast<std::size_t>(options.count) * dataset.image_size());

  const ir::PhiloxStream patterns{options.seed, 0, ir::stream_hash("data.synthetic.pattern")};
  const ir::PhiloxStream noise{options.seed, split == Split::train ? 0U : 1U,
                               ir::stream_hash("data.synthetic.noise")};
  std::uint64_t pixel = 0;
  for (std::int64_t sample = 0; sample < options.count; ++sample) {
    const std::int64_t label = sample % options.classes;
    dataset.labels.push_back(static_cast<std::int32_t>(label));
    for (std::int64_t channel = 0; channel < options.channels; ++channel) {
      for (std::int64_t y = 0; y < options.height; ++y) {
        for (std::int64_t x = 0; x < options.width; ++x) {
          const std::int64_t row = y * kPatternCells / options.height;
          const std::int64_t column = x * kPatternCells / options.width;
          const std::int64_t plane = label * options.channels + channel;
          const std::int64_t cell = (plane * kPatternCells + row) * kPatternCells + column;
          const int level = random_byte(patterns, static_cast<std::uint64_t>(cell));
          const int offset = random_byte(noise, pixel++) * 2 * kPixelNoise / 256 - kPixelNoise;
          dataset.images.push_back(static_cast<std::uint8_t>(std::clamp(level + offset, 0, 255)));
        }
      }
    }
  }
  return dataset;
}

}  // namespace rewire::runtime

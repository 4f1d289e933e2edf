// A labelled image set in memory: bytes as they were stored, decoded once; normalisation and augmentation
// happen on the way into a batch (transform.h, loader.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

enum class Split { train, test };

struct Dataset {
  std::string name;  // for messages: where it came from
  std::int64_t count = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> images;  // [count, channels, height, width]
  std::vector<std::int32_t> labels;  // [count], each >= 0

  std::size_t image_size() const { return static_cast<std::size_t>(channels * height * width); }
  std::span<const std::uint8_t> image(std::int64_t index) const {
    return {images.data() + static_cast<std::size_t>(index) * image_size(), image_size()};
  }
};

/// UserError naming the first sample whose label the model has no class for.
void check_labels(const Dataset& dataset, std::int64_t classes);

/// Where the Debian package dataset-fashion-mnist puts its files.
inline constexpr std::string_view kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

/// The MNIST family's four files in `folder`: {train,t10k}-images-idx3-ubyte and -labels-idx1-ubyte, plain or
/// with .gz (the plain one is taken where both stand). One channel. UserError, one line, naming the file and
/// the fault: missing, truncated, not IDX, not bytes, a count that differs between images and labels.
Dataset load_idx_dataset(const std::string& folder, Split split);

struct SyntheticOptions {
  std::int64_t count = 1024;
  std::int64_t classes = 10;
  std::int64_t channels = 1;
  std::int64_t height = 28;
  std::int64_t width = 28;
  std::uint64_t seed = 0;
};

/// Images that can be learnt, without a file: each class is a coarse random pattern, each image its class's
/// pattern under noise. The splits share the patterns and no image. The same bytes on every machine.
/// UserError on a size below 1, and on more images than the machine's memory holds.
Dataset make_synthetic_dataset(const SyntheticOptions& options, Split split);

}  // namespace rewire::runtime

#include "runtime/analyze/pixel_labels.h"

#include <algorithm>
#include <filesystem>

#include "ir/error.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/data/vision/preview.h"
#include "runtime/io/files.h"
#include "runtime/io/npy.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostMaskBytes = std::size_t{1} << 28;

/// Returns MASKS/n01/a.png if it exists, else MASKS/a.png.
std::string mask_of(const std::string& folder, const std::string& image) {
  const fs::path path = fs::path(image).replace_extension(".png");
  const fs::path nested = fs::path(folder) / path.parent_path().filename() / path.filename();
  return fs::exists(nested) ? nested.string() : (fs::path(folder) / path.filename()).string();
}

}  // namespace

std::vector<std::int64_t> threshold_labels(const LabelledImages& images, double threshold) {
  const std::int64_t channels = images.image.at(0);
  const auto pixels = static_cast<std::size_t>(images.image.at(1) * images.image.at(2));
  const std::size_t numbers = pixels * static_cast<std::size_t>(channels);
  std::vector<std::int64_t> labels;
  labels.reserve(images.labels.size() * pixels);
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    const std::vector<std::uint8_t> bytes =
        unnormalised(images.pixels.subspan(i * numbers, numbers), channels, images.transforms);
    for (std::size_t p = 0; p < pixels; ++p) {
      double sum = 0;
      for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) sum += bytes[c * pixels + p];
      const bool foreground = sum / 255 / static_cast<double>(channels) > threshold;
      labels.push_back(foreground ? images.labels[i] + 1 : 0);
    }
  }
  return labels;
}

std::vector<std::int64_t> mask_file(const std::string& npy_path, const ir::Shape& image, std::int64_t count) {
  const HostTensor masks = read_npy(npy_path);
  const ir::TensorType& type = masks.type();
  const bool fits = type.rank() == 3 && type.shape[1] == image.at(1) && type.shape[2] == image.at(2);
  if (ir::is_float(type.dtype) || !fits)
    user_error("{}: it is {}; masks must be integers [images,{},{}], the size of the network's images",
               npy_path, to_string(type), image.at(1), image.at(2));
  if (type.shape[0] < count)
    user_error("{}: it has {} masks, but {} images are used", npy_path, type.shape[0], count);
  const ir::Tensor numbers = to_double(masks);
  std::vector<std::int64_t> labels;
  for (const double number : numbers.data) labels.push_back(static_cast<std::int64_t>(number));
  labels.resize(static_cast<std::size_t>(count * image[1] * image[2]));
  return labels;
}

std::vector<std::int64_t> mask_folder(const std::string& folder, const std::vector<std::string>& image_names,
                                      const ir::Shape& image) {
  std::vector<std::int64_t> labels;
  std::vector<std::uint8_t> pixels;
  for (const std::string& name : image_names) {
    const std::string file = mask_of(folder, name);
    const ImageSize size = decode_image(read_file(file, kMostMaskBytes), file, 1, pixels);
    if (size.height != image.at(1) || size.width != image.at(2))
      user_error("{}: it has {} x {} pixels; masks must have the size of the network's images, {} x {}", file,
                 size.height, size.width, image.at(1), image.at(2));
    labels.insert(labels.end(), pixels.begin(), pixels.end());
  }
  return labels;
}

std::int64_t pixel_classes(std::span<const std::int64_t> labels) {
  std::int64_t largest = -1;
  for (const std::int64_t label : labels) {
    if (label != kIgnoredPixel) largest = std::max(largest, label);
  }
  if (largest < 0) user_error("no pixel of the masks has a class: all are {}", kIgnoredPixel);
  if (largest > kIgnoredPixel)
    user_error("a pixel of the masks is {}; classes are 0 to 254, and 255 means no class", largest);
  return largest + 1;
}

}  // namespace rewire::runtime

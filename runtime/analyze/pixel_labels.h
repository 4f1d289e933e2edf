// Labels for each pixel of an image, to train dense probes. They come from files or are made from the
// images.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/attribute.h"
#include "ir/types.h"

namespace rewire::runtime {

/// The value of a pixel in a mask that is ignored.
inline constexpr std::int64_t kIgnoredPixel = 255;

/// Labelled images, f32 [images, channels, height, width], normalised by `normalize` of `transforms`.
struct LabelledImages {
  std::span<const float> pixels;
  std::span<const std::int64_t> labels;
  const ir::Shape& image;  // [channels, height, width]
  const ir::Attributes& transforms;
};
/// Returns, per pixel, 0 if the mean of its channels, from 0 to 1, is at most `threshold`; else the image's
/// label + 1.
std::vector<std::int64_t> threshold_labels(const LabelledImages& images, double threshold);

/// Reads the first `count` masks of a .npy file, integers [images, height, width] of the network's images.
/// Throws UserError naming the file if its type does not fit, or it has too few.
std::vector<std::int64_t> mask_file(const std::string& npy_path, const ir::Shape& image, std::int64_t count);

/// Reads a grey .png mask for each image, named after its file: for FOLDER/n01/a.jpg, MASKS/n01/a.png or
/// MASKS/a.png. Throws UserError naming the first that is missing or differs in size from the network's
/// images.
std::vector<std::int64_t> mask_folder(const std::string& folder, const std::vector<std::string>& image_names,
                                      const ir::Shape& image);

/// Returns one more than the largest label other than 255. Throws UserError if all labels are 255.
std::int64_t pixel_classes(std::span<const std::int64_t> labels);

}  // namespace rewire::runtime

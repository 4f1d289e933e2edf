// A label for each pixel of an image, as dense probes are trained on: of files, or made from the images.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/attribute.h"
#include "ir/types.h"

namespace rewire::runtime {

/// 255 in a mask: the pixel counts for nothing.
inline constexpr std::int64_t kIgnoredPixel = 255;

/// Images, f32 [images, channels, height, width] as `normalize` of `transforms` made them, with a label each.
struct LabelledImages {
  std::span<const float> pixels;
  std::span<const std::int64_t> labels;
  const ir::Shape& image;  // [channels, height, width]
  const ir::Attributes& transforms;
};
/// 0 where the mean of a pixel's channels, from 0 to 1, is no more than `threshold`; else the image's label + 1.
std::vector<std::int64_t> threshold_labels(const LabelledImages& images, double threshold);

/// The first `count` masks of a .npy file, integers [images, height, width] of the network's images. UserError naming the
/// file where it is none, or has too few.
std::vector<std::int64_t> mask_file(const std::string& npy_path, const ir::Shape& image, std::int64_t count);

/// A grey .png a mask in a folder, by the name of the image's file: of FOLDER/n01/a.jpg MASKS/n01/a.png, or MASKS/a.png.
/// UserError naming the first that is not there, or not of the height and width of the network's images.
std::vector<std::int64_t> mask_folder(const std::string& folder, const std::vector<std::string>& image_names,
                                      const ir::Shape& image);

/// One more than the largest label but 255. UserError where all are.
std::int64_t pixel_classes(std::span<const std::int64_t> labels);

}  // namespace rewire::runtime

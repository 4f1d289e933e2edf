// Selects some of a source's images.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

/// Returns a source of the images with these indices, which ascend.
std::unique_ptr<ImageSource> take_images(std::unique_ptr<ImageSource> source,
                                         std::vector<std::uint32_t> images);

/// Reads a text file that names one image per line; returns the images in the source's order. A line is the
/// end of an image's path, from the beginning of a folder's or the file's name on, or digits alone: its
/// index. Empty lines are skipped. Throws UserError naming the line if none or several match, or if the file
/// has it twice.
std::vector<std::uint32_t> listed_images(const ImageSource& source, const std::string& list_path);

/// Returns that share of each class's images, rounded, but at least one. The choice does not depend on the
/// run's seed, and a larger share includes a smaller one.
std::vector<std::uint32_t> images_of_each_class(const ImageSource& source, double share);

}  // namespace rewire::runtime

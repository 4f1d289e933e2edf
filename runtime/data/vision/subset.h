// A part of a source's images.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

/// The images of those indices, which rise.
std::unique_ptr<ImageSource> take_images(std::unique_ptr<ImageSource> source,
                                         std::vector<std::uint32_t> images);

/// The images that a text file names, one a line, in the source's order: the end of an image's path, from the beginning
/// of a folder's or the file's name on, or digits alone, its index. Empty lines do not count. UserError naming the
/// line: none or several of that name, or one that stands in the file twice.
std::vector<std::uint32_t> listed_images(const ImageSource& source, const std::string& list_path);

/// Of each class that share of its images, rounded, but at least one: the same whatever the run's seed, and those of a
/// smaller share are among those of a larger one.
std::vector<std::uint32_t> images_of_each_class(const ImageSource& source, double share);

}  // namespace rewire::runtime

// Turns images as their EXIF orientation says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/data/vision/box.h"
#include "runtime/data/vision/image_file.h"

namespace rewire::runtime {

/// Returns the orientation in the EXIF of a JPEG or PNG file, 1 to 8; 1 if there is none, or none that is
/// valid.
int exif_orientation(std::span<const std::byte> file);

/// Decodes like decode_image(), and turns the image by `orientation`. Sizes, box and pixels refer to the
/// turned image.
ImageSize decode_upright(std::span<const std::byte> file, std::string_view name, std::int64_t channels,
                         std::vector<std::uint8_t>& pixels, const BoxFunction& needed, int orientation);

}  // namespace rewire::runtime

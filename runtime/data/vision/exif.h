// What EXIF says of how an image is to be turned before it is looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/data/vision/box.h"
#include "runtime/data/vision/image_file.h"

namespace rewire::runtime {

/// The orientation in the EXIF of a JPEG or PNG file, 1 to 8; 1 where it says none, or nothing valid.
int exif_orientation(std::span<const std::byte> file);

/// decode_image() of an image of that orientation, turned as it says: sizes, box and pixels are of the turned image.
ImageSize decode_upright(std::span<const std::byte> file, std::string_view name, std::int64_t channels,
                         std::vector<std::uint8_t>& pixels, const BoxFunction& needed, int orientation);

}  // namespace rewire::runtime

// JPEG and PNG files as pixels, by libjpeg and libpng. Every size is checked before memory is asked for, and
// whatever the bytes are, the answer is pixels or one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/vision/box.h"

namespace rewire::runtime {

inline constexpr std::int64_t kMostImagePixels = std::int64_t{1} << 28;
inline constexpr std::size_t kMostImageBytes = std::size_t{1} << 30;  // of a file
/// Changes with the pixels that a file gives: a cache of decoded images with another number is not read.
inline constexpr int kDecoderVersion = 2;

struct ImageSize {
  std::int64_t height = 0, width = 0;
};

/// With A to Z as small letters: endings of names are compared so.
std::string lower_case(std::string_view text);
/// Whether a file of that name is taken for an image: .jpg, .jpeg, .jpe, .jfif or .png, in any case.
bool is_image_name(std::string_view name);
/// Whether it looks like an image of a format that is not read, as .webp.
bool is_other_image_name(std::string_view name);
/// Behind the name's last dot, in small letters; "": there is none. A suffix begins with a letter and has five letters
/// or digits at most.
std::string suffix_of(std::string_view name);
/// Whether a file begins as JPEG or PNG files do. Eight bytes are enough.
bool begins_as_image(std::span<const std::byte> file);

/// Writes u8 [channels, height, width], channels 1 or 3, to `pixels`, which it sizes. Colours become grey by
/// ITU-R 601's luma, grey becomes three equal channels, a palette its colours, 16 bits the nearest 8; what an
/// alpha channel says is dropped; inks of CMYK and YCCK are taken as Adobe stores
/// them (255: none), as Pillow takes them, and converted without a profile. Of a JPEG no more is read than the box that
/// is `needed` takes: pixels outside may be left as they were, and damage behind it is not seen. UserError
/// beginning with `name`: no image, damaged, truncated, or of more than kMostImagePixels.
ImageSize decode_image(std::span<const std::byte> file, std::string_view name, std::int64_t channels,
                       std::vector<std::uint8_t>& pixels, const BoxFunction& needed = nullptr);

}  // namespace rewire::runtime

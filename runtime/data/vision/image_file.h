// Reads JPEG and PNG files as pixels, by libjpeg and libpng. Every size is checked before memory is
// allocated. Whatever the bytes are, the result is pixels or a one-line error.
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
inline constexpr std::size_t kMostImageBytes = std::size_t{1} << 30;  // largest file
/// Changes when decoding gives other pixels: a cache of decoded images with another number is not read.
inline constexpr int kDecoderVersion = 2;

struct ImageSize {
  std::int64_t height = 0, width = 0;
};

/// Returns the text with A to Z in lower case, in which suffixes are compared.
std::string lower_case(std::string_view text);
/// Returns true if a file of that name is read as an image: .jpg, .jpeg, .jpe, .jfif or .png, in any case.
bool is_image_name(std::string_view name);
/// Returns true if the name looks like an image of a format that is not read, such as .webp.
bool is_other_image_name(std::string_view name);
/// Returns a name's suffix, the part after its last dot, in lower case; "" if there is none. A suffix begins
/// with a letter and has at most five letters or digits.
std::string suffix_of(std::string_view name);
/// Returns true if a file begins as JPEG or PNG files do. Eight bytes are enough.
bool begins_as_image(std::span<const std::byte> file);

/// Decodes to u8 [channels, height, width], channels 1 or 3, in `pixels`, which it sizes. Colours become
/// grey by ITU-R 601's luma, grey becomes three equal channels, a palette its colours, 16 bits the nearest
/// 8; alpha is dropped. Inks of CMYK and YCCK are read as Adobe stores them (255: none), like in Pillow, and
/// converted without a profile. A JPEG is read only as far as the `needed` box requires: pixels outside may
/// keep their values, and damage after it is not seen. Throws UserError beginning with `name` if the file is
/// not an image, damaged, truncated, or above kMostImagePixels.
ImageSize decode_image(std::span<const std::byte> file, std::string_view name, std::int64_t channels,
                       std::vector<std::uint8_t>& pixels, const BoxFunction& needed = nullptr);

}  // namespace rewire::runtime

// The images of a source, decoded once into a file: an image is then read without being decoded, and no bit of it is
// another.
//
// The file: the pixels of all images, u8 [channels, height, width] each, one behind the other; padding to 8 bytes; for
// each image its offset (u64), height and width (u32; both 0 where it is not in the file); the number of images (u64);
// BLAKE3 of all before, 64 hexadecimal digits; and the 8 bytes of kCacheMagic. Little-endian.
#pragma once

#include <memory>
#include <string>

#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

inline constexpr char kCacheMagic[] = "rewirei1";  // without its NUL

struct CacheOptions {
  std::string folder;  // is made where it is not there
  int threads = 1;     // that decode
};

/// `source` with its pixels from FOLDER/FINGERPRINT.images: the file is made where it is missing, and made anew where it
/// is damaged. All of it is read once, to compare its digest. An image that cannot be decoded whole is not in it, and is
/// read from the source each time: what is needed of it may be sound. UserError where the source has nothing to decode,
/// the file cannot be written, or belongs to another user. Reading an image is a UserError once the file has changed.
std::unique_ptr<ImageSource> cache_decoded(std::unique_ptr<ImageSource> source, const CacheOptions& options);

}  // namespace rewire::runtime

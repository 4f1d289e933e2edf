// Decodes the images of a source once into a file. Images are then read without decoding, with the same
// bits.
//
// The file holds the pixels of all images, u8 [channels, height, width] each, in order; padding to 8 bytes;
// for each image its offset (u64), height and width (u32; both 0 if it is not in the file); the number of
// images (u64); BLAKE3 of all before, 64 hexadecimal digits; and the 8 bytes of kCacheMagic. Numbers are
// little-endian.
#pragma once

#include <memory>
#include <string>

#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

inline constexpr char kCacheMagic[] = "rewirei1";  // without its NUL

struct CacheOptions {
  std::string folder;  // is made if it is missing
  int threads = 1;     // decoding threads
};

/// Returns `source` with its pixels from FOLDER/FINGERPRINT.images. The file is made if it is missing or
/// damaged; all of it is read once, to check its digest. An image that cannot be decoded whole is not in it,
/// and is read from the source each time: the needed part may be sound. Throws UserError if the source has
/// nothing to decode, or if the file cannot be written or belongs to another user. Reading an image throws
/// UserError once the file has changed.
std::unique_ptr<ImageSource> cache_decoded(std::unique_ptr<ImageSource> source, const CacheOptions& options);

}  // namespace rewire::runtime

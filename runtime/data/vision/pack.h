// Packs images with files of their own into shards: tar files that `data.format=shards` reads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rewire::runtime {

struct PackOptions {
  std::string folder, output;
  std::string format = "folder";  // or tiny_imagenet
  std::uint64_t shard_bytes = 256'000'000;
  std::uint64_t seed = 0;  // seed of the order of training images
};

struct PackedShard {
  std::string path;
  std::int64_t images = 0;
  std::uint64_t bytes = 0;
};

/// Writes OUTPUT/train-000000.tar … with training images in a random order, OUTPUT/val-000000.tar … with the
/// other images in their order, if there are any, and OUTPUT/classes.txt. Image files are copied unchanged;
/// the same input gives the same bytes. `written` is called after each shard. All is written into a hidden
/// folder beside OUTPUT, which is renamed last. Throws UserError and leaves nothing of it if the output
/// folder is not empty, the folder is not such a data set, a file is not a whole image, or one lies outside
/// FOLDER.
std::vector<PackedShard> pack_images(const PackOptions& options,
                                     const std::function<void(const PackedShard&)>& written = nullptr);

}  // namespace rewire::runtime

// Images that are files of their own, packed into shards: tar files that `data.format=shards` reads.
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
  std::uint64_t seed = 0;  // of the order of training images
};

struct PackedShard {
  std::string path;
  std::int64_t images = 0;
  std::uint64_t bytes = 0;
};

/// Writes OUTPUT/train-000000.tar … with training images in a random order, OUTPUT/val-000000.tar … with the others in
/// theirs, if the folder has any, and OUTPUT/classes.txt. The files of images are copied as they are; the same input
/// gives the same bytes. `written` is called behind each shard. All is written into a hidden folder beside OUTPUT,
/// which gets its name last. UserError, whereupon nothing of it is left: an output folder that holds something, a folder
/// that is no such data set, a file that is no whole image, one that lies out of FOLDER.
std::vector<PackedShard> pack_images(const PackOptions& options,
                                     const std::function<void(const PackedShard&)>& written = nullptr);

}  // namespace rewire::runtime

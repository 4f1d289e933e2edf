// Where the images of a shard stand: a tar file as webdataset writes them. A sample is what follows each other with one
// key, its name up to the first dot behind the last slash: KEY.jpg (or another suffix of is_image_name) and KEY.cls, a
// label in decimal. Several tar files in one are read to the end. Headers and labels are read, pixels are not.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

struct ShardImage {
  std::uint64_t offset = 0;  // of its first byte in the shard
  std::uint32_t size = 0;
  std::int32_t label = 0;
  std::uint64_t name_end = 0;  // in ShardIndex::names; it begins where the one before ends
};

struct ShardIndex {
  std::string path;
  std::vector<ShardImage> images;
  std::string names;  // of all images in the shard, one behind the other
  std::uint64_t file_size = 0;
  std::int64_t modified_ns = 0;                // its time, since 1970
  std::uint64_t bytes_read = 0;                // while it was indexed
  std::map<std::string, std::int64_t> unread;  // what looks like an image and is of no sample, by kind
  std::string dotted;                          // the first of them with a dot in its key

  std::string_view name(std::size_t image) const;
};

/// UserError naming the shard, and the sample where there is one: no tar file, a compressed or truncated one; an image
/// without a label or a label without an image, two of either, a label that is no number; an entry that is empty, a
/// link or sparse; a sample whose entries do not follow each other.
ShardIndex index_shard(const std::string& path);

/// Of many, by several threads; the first that is refused is the one whose error is thrown.
std::vector<ShardIndex> index_shards(const std::vector<std::string>& paths);

}  // namespace rewire::runtime

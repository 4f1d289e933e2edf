// Locates the images of a shard, a tar file in webdataset's layout. A sample is a run of entries with one
// key, the name up to the first dot after the last slash: KEY.jpg (or another suffix of is_image_name) and
// KEY.cls, a label in decimal. Several tar files in one are read to the end. Headers and labels are read,
// pixels are not.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

struct ShardImage {
  std::uint64_t offset = 0;  // offset of its first byte in the shard
  std::uint32_t size = 0;
  std::int32_t label = 0;
  std::uint64_t name_end = 0;  // in ShardIndex::names; the name begins at the previous image's end
};

struct ShardIndex {
  std::string path;
  std::vector<ShardImage> images;
  std::string names;  // names of all images in the shard, concatenated
  std::uint64_t file_size = 0;
  std::int64_t modified_ns = 0;                // modification time, since 1970
  std::uint64_t bytes_read = 0;                // while indexing
  std::map<std::string, std::int64_t> unread;  // image-like entries of no sample, by kind
  std::string dotted;                          // the first of them with a dot in its key

  std::string_view name(std::size_t image) const;
};

/// Indexes a shard. Throws UserError naming the shard, and the sample if there is one, on: no tar file, a
/// compressed or truncated one; an image without a label or a label without an image; two of either; a label
/// that is not a number; an empty, linked or sparse entry; a sample whose entries do not follow each other.
ShardIndex index_shard(const std::string& path);

/// Indexes many shards with several threads. Throws the error of the first shard that is refused.
std::vector<ShardIndex> index_shards(const std::vector<std::string>& paths);

}  // namespace rewire::runtime

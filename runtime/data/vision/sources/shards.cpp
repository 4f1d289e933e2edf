// Shards of images: tar files as webdataset writes them. Each is indexed when the source is opened
// (tar_index.h). An image is read from the middle of its shard when it is needed. Training visits
// shards in a random order and mixes the samples in a buffer, so that it reads files almost from
// their beginning to their end.
#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <new>
#include <system_error>
#include <utility>

#include "codegen/files/descriptor.h"
#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/draw.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/data/vision/sources/image_files.h"
#include "runtime/data/vision/tar_index.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

/// Returns the names in `folder` that match the pattern, in order.
std::vector<std::string> matching_files(const std::filesystem::path& folder, const std::string& pattern) {
  std::vector<std::string> paths;
  for (const std::filesystem::path& path : folder_entries(folder)) {
    if (::fnmatch(pattern.c_str(), path.filename().c_str(), 0) == 0) paths.push_back(path.string());
  }
  return paths;
}

/// Passes samples 0, 1, … of `order` through a buffer of `size`. A random sample leaves the buffer, and the
/// next sample takes its place.
std::vector<std::uint32_t> through_buffer(std::vector<std::uint32_t> order, std::size_t size,
                                          std::uint64_t seed, std::int64_t epoch) {
  const ir::PhiloxStream stream{seed, static_cast<std::uint32_t>(epoch),
                                ir::stream_hash("data.order.buffer")};
  std::size_t next = std::min(size, order.size());
  std::vector<std::uint32_t> buffer(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(next));
  for (std::size_t place = 0; place < order.size(); ++place) {
    std::uint32_t& drawn = buffer[draw_below(stream, place, buffer.size())];
    const std::uint32_t out = drawn;
    if (next < order.size()) {
      drawn = order[next++];
    } else {
      drawn = buffer.back();
      buffer.pop_back();
    }
    order[place] = out;  // read already: the buffer has samples from before `next`, which is ahead
  }
  return order;
}

class Shards final : public ImageSource {
 public:
  Shards(std::string folder, const Decoding& how, std::size_t buffer, std::vector<ShardIndex> shards)
      : folder_(std::move(folder)), decoding_(how), buffer_(buffer), shards_(std::move(shards)) {
    std::int64_t end = 0;
    for (const ShardIndex& shard : shards_) ends_.push_back(end += std::ssize(shard.images));
    const std::filesystem::path classes = std::filesystem::path(folder_) / "classes.txt";
    constexpr std::size_t kMostClasses = 1'000'000;
    if (has_file(classes)) classes_ = lines_of_file(classes.string(), kMostClasses);
  }

  std::string name() const override { return visible(folder_); }
  std::int64_t count() const override { return ends_.back(); }
  ir::Shape shape() const override { return {decoding_.channels, 0, 0}; }
  std::int64_t label(std::int64_t index) const override {
    const Place place = place_of(index);
    return place.shard->images[place.image].label;
  }
  std::vector<std::string> class_names() const override { return classes_; }

  SourceNotes notes() const override {
    UnreadKinds unread;
    std::string dotted;
    for (const ShardIndex& shard : shards_) {
      for (const auto& [kind, count] : shard.unread) unread[kind] += count;
      if (dotted.empty()) dotted = shard.dotted;
    }
    SourceNotes notes;
    const std::string text = unread_text(unread);
    if (text.empty()) return notes;
    notes.left_out.push_back(fmt::format("samples that look like images but are left out: {}", text));
    if (!dotted.empty())
      notes.left_out.back() +=
          fmt::format("; a key ends at the first dot, so {} is not an image: rename it", visible(dotted));
    return notes;
  }

  std::string sample_name(std::int64_t index) const override {
    const Place place = place_of(index);
    return fmt::format("{}/{}", visible(place.shard->path), visible(place.shard->name(place.image)));
  }

  StoredImage decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const override {
    const Place place = place_of(index);
    read_bytes(*place.shard, place.shard->images[place.image], buffer.file);
    return decode_file(buffer, sample_name(index), decoding_, needed);
  }

  std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const override {
    std::vector<std::uint32_t> samples;
    samples.reserve(static_cast<std::size_t>(count()));
    for (const std::uint32_t shard : epoch_order(std::ssize(shards_), seed, epoch)) {
      const std::int64_t begin = shard == 0 ? 0 : ends_[shard - 1];
      for (std::int64_t sample = begin; sample < ends_[shard]; ++sample)
        samples.push_back(static_cast<std::uint32_t>(sample));
    }
    return through_buffer(std::move(samples), buffer_, seed, epoch);
  }

  std::string fingerprint() const override {
    codegen::Digest digest;
    const auto add = [&digest](std::string_view text) { digest.update(std::as_bytes(std::span(text))); };
    add(decoding_stamp("shards", decoding_));
    for (const ShardIndex& shard : shards_) add(file_stamp(shard.path));
    return digest.hex();
  }

 private:
  struct Place {
    const ShardIndex* shard;
    std::size_t image;
  };
  Place place_of(std::int64_t index) const {
    const auto shard = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    return {&shards_[shard], static_cast<std::size_t>(index - (shard == 0 ? 0 : ends_[shard - 1]))};
  }

  /// Reads the image's bytes and no others. Throws UserError if the shard is not the one that was indexed.
  static void read_bytes(const ShardIndex& shard, const ShardImage& image, std::vector<std::byte>& bytes) {
    const auto fail = [&shard](int error) {
      user_error("cannot read {}: {}", visible(shard.path), std::generic_category().message(error));
    };
    const auto fail_changed = [&shard] {
      throw DataError(fmt::format("{}: the shard has changed since it was opened: run the command again",
                                  visible(shard.path)));
    };
    const codegen::Descriptor file(::open(shard.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) fail(errno);
    const std::int64_t modified = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
    if (static_cast<std::uint64_t>(status.st_size) != shard.file_size || modified != shard.modified_ns)
      fail_changed();
    try {
      bytes.resize(image.size);
    } catch (const std::bad_alloc&) {
      user_error("{}: there is not enough memory for an image of {} bytes", visible(shard.path), image.size);
    }
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::pread(file.get(), bytes.data() + done, bytes.size() - done,
                                    static_cast<off_t>(image.offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(errno);
      if (count == 0) fail_changed();
      done += static_cast<std::size_t>(count);
    }
  }

  std::string folder_;
  Decoding decoding_;
  std::size_t buffer_;
  std::vector<ShardIndex> shards_;
  std::vector<std::int64_t> ends_;  // of each shard's samples
  std::vector<std::string> classes_;
};

std::unique_ptr<Source> open_shards(const ir::Attributes& values, const SourceContext& asks) {
  const ImageContext context = image_context(asks);
  const std::string& folder = values.get_string("path");
  if (folder.empty()) user_error("data.path is empty: set it to the folder of the shards");
  check_image_channels(folder, context.image[0]);
  const char* key = context.split == Split::train ? "train_shards" : "test_shards";
  const std::string& pattern = values.get_string(key);
  const std::vector<std::string> paths = matching_files(folder, pattern);
  if (paths.empty())
    user_error("{}: no file name matches {}: set data.{}", visible(folder), printable(pattern), key);
  const char* other = context.split == Split::train ? "test_shards" : "train_shards";
  for (const std::string& path : paths) {
    const std::string name = std::filesystem::path(path).filename().string();
    if (::fnmatch(values.get_string(other).c_str(), name.c_str(), 0) == 0)
      user_error("{}: it matches both data.train_shards and data.test_shards: narrow one of them",
                 visible(path));
  }
  std::vector<ShardIndex> shards = index_shards(paths);
  std::uint64_t count = 0;
  for (const ShardIndex& shard : shards) count += shard.images.size();
  if (count > std::numeric_limits<std::uint32_t>::max())
    user_error("{}: {} samples are too many", visible(folder), count);
  return std::make_unique<Shards>(folder, decoding(values, context.image[0]),
                                  static_cast<std::size_t>(values.get_int("shuffle_buffer")),
                                  std::move(shards));
}

bool are_shards(const std::string& path) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with('.') && ::fnmatch("*train*.tar", name.c_str(), 0) == 0) return true;
  }
  return false;
}

}  // namespace

extern const SourceRow kShardsSource{
    "shards",
    "tar files of JPEG and PNG images, as webdataset and `rewire data pack` write them",
    {ir::path_parameter("path", "", "folder of the shards"),
     ir::text_parameter("train_shards", "*train*.tar", "glob pattern of the training shards' names"),
     ir::text_parameter("test_shards", "*val*.tar", "glob pattern of the test shards' names"),
     ir::int_parameter("shuffle_buffer", 1000, "number of samples in the training shuffle buffer")
         .at_least(1)
         .at_most(1e9),
     exif_parameter()},
    open_shards,
    are_shards};

}  // namespace rewire::runtime

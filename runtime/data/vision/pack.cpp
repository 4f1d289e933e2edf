#include "runtime/data/vision/pack.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <system_error>
#include <utility>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/data/vision/sources/image_files.h"
#include "runtime/data/vision/tar_file.h"
#include "runtime/device/log.h"
#include "runtime/io/files.h"
#include "runtime/io/new_folder.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

ImageFileList list_split(const PackOptions& options, Split split) {
  const fs::path folder = options.folder;
  if (options.format == "tiny_imagenet") return list_tiny_imagenet(folder, split);
  if (options.format != "folder")
    user_error("--format {}: it takes folder or tiny_imagenet", printable(options.format));
  return list_image_folder({.root = folder}, split);
}

/// Returns the suffix of the name; if it has none, the suffix of the format.
std::string suffix_of_image(const std::string& path, std::span<const std::byte> bytes) {
  if (is_image_name(path)) return suffix_of(path);
  return bytes.front() == std::byte{0xFF} ? "jpg" : "png";
}

class Packer {
 public:
  Packer(const PackOptions& options, const std::function<void(const PackedShard&)>& written)
      : options_(options), written_(written) {}

  std::vector<PackedShard> run() {
    // Errors in the input are reported before anything is written.
    const ImageFileList train = list_split(options_, Split::train);
    const fs::path val_folder = fs::path(options_.folder) / "val";
    const bool has_val = is_image_folder(val_folder);
    const ImageFileList val = has_val ? list_split(options_, Split::test) : ImageFileList{};
    if (!has_val) {
      std::vector<std::string> others = class_folders(options_.folder);
      std::erase(others, "train");
      write_log(LogLevel::warning,
                fmt::format("{} does not exist{}: only the training images are packed",
                            visible(val_folder.native()),
                            others.empty() ? "" : fmt::format(" (but {})", names_text(others))));
    }
    note(train);
    note(val);
    const std::string classes = class_lines(train.classes);
    NewFolder folder(options_.output);
    pack(folder, train, epoch_order(std::ssize(train.files), options_.seed, 0), "train");
    std::vector<std::uint32_t> in_order(val.files.size());
    std::iota(in_order.begin(), in_order.end(), 0U);
    pack(folder, val, in_order, "val");
    write_file_atomically(folder.partial("classes.txt"), classes);
    folder.commit();
    return std::move(shards_);
  }

 private:
  static void note(const ImageFileList& list) {
    for (const std::string& line : notes_of(list).left_out)
      write_log(LogLevel::warning, fmt::format("{}: {}", visible(list.folder), line));
  }

  /// Returns the file's bytes, unchanged. Throws UserError unless it is an image in the folder. Somebody
  /// else may have made a link that leads out of it.
  std::vector<std::byte> image_bytes(const std::string& path) {
    if (!is_below(options_.folder, path))
      user_error("{}: it leads out of {}: copy the file there, or remove the link", visible(path),
                 visible(options_.folder));
    std::vector<std::byte> bytes = read_regular_file(path, kMostImageBytes);
    if (bytes.empty()) user_error("{}: the file is empty: remove it from the folder", visible(path));
    decode_image(bytes, path, 3, pixels_);
    return bytes;
  }

  static std::string class_lines(const std::vector<std::string>& classes) {
    std::string lines;
    for (const std::string& name : classes) {
      if (name.find('\n') != std::string::npos)
        user_error("the class {} has a line feed in its name, but classes.txt has one name per line",
                   visible(name));
      lines += name + "\n";
    }
    return lines;
  }

  void pack(const NewFolder& folder, const ImageFileList& list, const std::vector<std::uint32_t>& order,
            std::string_view split) {
    std::unique_ptr<TarFile> shard;
    PackedShard packed;
    std::size_t number = 0;
    const auto finish = [&] {
      if (!shard) return;
      shard->commit();
      packed.bytes = shard->size();
      shards_.push_back(packed);
      shard.reset();
      if (written_) written_(packed);
    };
    for (std::size_t place = 0; place < order.size(); ++place) {
      const ImageFile& image = list.files[order[place]];
      const std::vector<std::byte> bytes = image_bytes(image.path);
      const std::string label = std::to_string(image.label);
      const std::uint64_t size = TarFile::size_of_entry(bytes.size()) + TarFile::size_of_entry(label.size());
      if (shard && shard->size() + size > options_.shard_bytes) finish();
      if (!shard) {
        const std::string name = fmt::format("{}-{:06}.tar", split, number++);
        packed = {folder.output(name), 0, 0};
        shard = std::make_unique<TarFile>(folder.partial(name));
      }
      const std::string key = fmt::format("{:09}", place);
      shard->add(fmt::format("{}.{}", key, suffix_of_image(image.path, bytes)), bytes);
      shard->add(key + ".cls", std::as_bytes(std::span(label)));
      ++packed.images;
    }
    finish();
  }

  const PackOptions& options_;
  const std::function<void(const PackedShard&)>& written_;
  std::vector<std::uint8_t> pixels_;
  std::vector<PackedShard> shards_;
};

}  // namespace

std::vector<PackedShard> pack_images(const PackOptions& options,
                                     const std::function<void(const PackedShard&)>& written) {
  if (options.folder.empty()) user_error("no folder of images is given");
  if (options.output.empty()) user_error("no folder for the shards is given: set --output");
  return Packer(options, written).run();
}

}  // namespace rewire::runtime

#include "runtime/data/pack.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <system_error>
#include <utility>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/image_file.h"
#include "runtime/data/source.h"
#include "runtime/data/sources/image_files.h"
#include "runtime/data/tar_file.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

ImageFileList list_split(const PackOptions& options, Split split) {
  const fs::path folder = options.folder;
  if (options.format == "tiny_imagenet") return list_tiny_imagenet(folder, split);
  if (options.format != "folder")
    user_error("--format {}: it takes folder or tiny_imagenet", printable(options.format));
  const fs::path train = folder / "train", val = folder / "val";
  return split == Split::train ? list_image_folder(train, val) : list_image_folder(val, train);
}

class Packer {
 public:
  Packer(const PackOptions& options, const std::function<void(const PackedShard&)>& written)
      : options_(options), written_(written) {}

  std::vector<PackedShard> run() {
    // What is wrong with the input is said before anything is written.
    const ImageFileList train = list_split(options_, Split::train);
    const bool has_val = is_image_folder(fs::path(options_.folder) / "val");
    const ImageFileList val = has_val ? list_split(options_, Split::test) : ImageFileList{};
    const std::string classes = class_lines(train.classes);
    make_output();
    try {
      pack(train, epoch_order(std::ssize(train.files), options_.seed, 0), "train");
      std::vector<std::uint32_t> in_order(val.files.size());
      std::iota(in_order.begin(), in_order.end(), 0U);
      pack(val, in_order, "val");
      write_file_atomically(output("classes.txt"), classes);  // last: where it is there, all shards are
    } catch (...) {
      remove_written();
      throw;
    }
    return std::move(shards_);
  }

 private:
  std::string output(std::string_view name) const { return (fs::path(options_.output) / name).string(); }

  static std::string class_lines(const std::vector<std::string>& classes) {
    std::string lines;
    for (const std::string& name : classes) {
      if (name.find('\n') != std::string::npos)
        user_error("the class {}: a line feed stands in its name, and classes.txt has one a line",
                   visible(name));
      lines += name + "\n";
    }
    return lines;
  }

  void make_output() {
    made_folder_ = make_folder(options_.output);
    std::error_code error;
    const bool empty = fs::is_empty(options_.output, error);
    if (error) user_error("{}: {}", visible(options_.output), error.message());
    if (!empty) user_error("{}: the folder is not empty: name another by --output", visible(options_.output));
  }

  void pack(const ImageFileList& list, const std::vector<std::uint32_t>& order, std::string_view split) {
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
      const std::vector<std::byte> bytes = read_file(image.path);
      if (bytes.empty()) user_error("{}: the file is empty: take it out of the folder", visible(image.path));
      const std::string label = std::to_string(image.label);
      const std::uint64_t size = TarFile::size_of_entry(bytes.size()) + TarFile::size_of_entry(label.size());
      if (shard && shard->size() + size > options_.shard_bytes) finish();
      if (!shard) {
        packed = {output(fmt::format("{}-{:06}.tar", split, number++)), 0, 0};
        shard = std::make_unique<TarFile>(packed.path);
      }
      const std::string key = fmt::format("{:09}", place);
      shard->add(key + lower_case(fs::path(image.path).extension().string()), bytes);
      shard->add(key + ".cls", std::as_bytes(std::span(label)));
      ++packed.images;
    }
    finish();
  }

  void remove_written() const {
    std::error_code ignored;
    for (const PackedShard& shard : shards_) fs::remove(shard.path, ignored);
    if (made_folder_) fs::remove(options_.output, ignored);
  }

  const PackOptions& options_;
  const std::function<void(const PackedShard&)>& written_;
  bool made_folder_ = false;
  std::vector<PackedShard> shards_;
};

}  // namespace

std::vector<PackedShard> pack_images(const PackOptions& options,
                                     const std::function<void(const PackedShard&)>& written) {
  if (options.folder.empty()) user_error("no folder of images is given");
  if (options.output.empty()) user_error("no folder for the shards is given: name one by --output");
  return Packer(options, written).run();
}

}  // namespace rewire::runtime

// Images that are files of their own, each with its label: what the layouts of such files on a disk share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/data/source.h"

namespace rewire::runtime {

struct ImageFile {
  std::string path;
  std::int64_t label;
};

struct ImageFileList {
  std::string folder;                // that all paths begin with
  std::vector<std::string> classes;  // by label
  std::vector<ImageFile> files;
};

/// The splits of a folder of images, PATH/SPLIT/CLASS/…/NAME. UserError naming the folder or file, and its fault.
ImageFileList list_image_folder(const std::filesystem::path& split, const std::filesystem::path& other_split);
/// Of Tiny ImageNet as it is distributed.
ImageFileList list_tiny_imagenet(const std::filesystem::path& folder, Split split);

/// The names in a folder, sorted byte by byte; those that begin with a dot are left out. UserError.
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder);
bool is_image_folder(const std::filesystem::path& path);
bool has_file(const std::filesystem::path& path);
/// The folders in `folder`, sorted.
std::vector<std::string> class_folders(const std::filesystem::path& folder);
/// Adds the images below `folder`, in the order of their names. UserError where folders lie too deep, and on an
/// image of a format that is not read: it would be missing without a word.
void collect_images(const std::filesystem::path& folder, std::int64_t label, std::vector<ImageFile>& files);
/// Of a text, without their ends, which may be Windows'. UserError.
std::vector<std::string> lines_of_file(const std::string& path);
/// UserError unless the network takes as many channels as files of images can give: 1 or 3.
void check_image_channels(const std::string& folder, std::int64_t channels);
/// Path, size and times of change: what a fingerprint is made of. UserError where the file is gone.
std::string file_stamp(const std::string& path);

/// JPEG and PNG files, decoded when they are read.
class ImageFiles final : public ImageSource {
 public:
  ImageFiles(std::int64_t channels, ImageFileList list) : channels_(channels), list_(std::move(list)) {}

  std::string name() const override;
  std::int64_t count() const override { return std::ssize(list_.files); }
  ir::Shape shape() const override { return {channels_, 0, 0}; }
  std::int64_t label(std::int64_t index) const override { return at(index).label; }
  StoredImage read(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const override;
  std::string image_name(std::int64_t index) const override;
  std::vector<std::string> class_names() const override { return list_.classes; }
  std::string fingerprint() const override;

 private:
  const ImageFile& at(std::int64_t index) const { return list_.files[static_cast<std::size_t>(index)]; }

  std::int64_t channels_;
  ImageFileList list_;
};

}  // namespace rewire::runtime

// Images that are files of their own, each with its label: what the layouts of such files on a disk share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

struct ImageFile {
  std::string path;
  std::int64_t label;
};

/// How many of what looks like an image is not taken, by kind: ".webp", "hidden".
using UnreadKinds = std::map<std::string, std::int64_t>;
/// "8 .webp, 2 hidden"
std::string unread_text(const UnreadKinds& kinds);

/// "a, b, …": five at most, so that a message stays a line.
std::string names_text(const std::vector<std::string>& names);

struct ImageFileList {
  std::string folder;                // that all paths begin with
  std::vector<std::string> classes;  // by label
  std::vector<ImageFile> files;
  UnreadKinds unread;
  SourceNotes notes;  // without what is unread
};

/// All that a source of the list has to say.
SourceNotes notes_of(const ImageFileList& list);

/// A folder of images, ROOT/SPLIT/CLASS/…/NAME.
struct ImageFolder {
  std::filesystem::path root;
  std::string train = "train", test = "val";  // folders of the splits
  bool allows_empty = false;                  // classes without an image
  bool counts_naturally = false;              // classes: "2" before "10"
  std::string class_map = {};  // a file that gives folders their classes (class_map_file.h); "": none
};
/// The images of a split. Classes are those of train; those of test have the labels of their names, and some may lack.
/// With a class map they are the names in it, or nobody names them where it gives labels. UserError naming the folder or
/// file, and its fault.
ImageFileList list_image_folder(const ImageFolder& folder, Split split);
/// Of Tiny ImageNet as it is distributed.
ImageFileList list_tiny_imagenet(const std::filesystem::path& folder, Split split);

/// The paths in a folder, sorted byte by byte; names that begin with a dot are left out. UserError.
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder);
bool is_image_folder(const std::filesystem::path& path);
bool has_file(const std::filesystem::path& path);
/// The folders in `folder` that may be classes, sorted. Hidden ones, and those that systems make, as __MACOSX, are none:
/// their names are added to `others`.
std::vector<std::string> class_folders(const std::filesystem::path& folder, std::vector<std::string>& others);
std::vector<std::string> class_folders(const std::filesystem::path& folder);
/// Adds the images below `folder`, in the order of their names; a name without a suffix is one where the file begins
/// as an image. Links are followed, and counted where they lead out of `root`. UserError where folders lie too deep.
void collect_images(const std::filesystem::path& root, const std::filesystem::path& folder,
                    std::int64_t label, ImageFileList& list);
/// Whether a path, its links resolved, lies in `root` or below it.
bool is_below(const std::filesystem::path& root, const std::filesystem::path& path);
/// The whole of a file of a data set: a pipe or a device is none. UserError.
std::vector<std::byte> read_regular_file(const std::string& path,
                                         std::size_t most = std::numeric_limits<std::size_t>::max());
/// Of a text, without their ends, which may be Windows'. UserError, also where there are more than `most`.
std::vector<std::string> lines_of_file(const std::string& path, std::size_t most);
/// UserError unless the network takes as many channels as files of images can give: 1 or 3.
void check_image_channels(const std::string& folder, std::int64_t channels);
/// Path, size and times of change: what a fingerprint is made of. UserError where the file is gone.
std::string file_stamp(const std::string& path);

/// How a source decodes its files.
struct Decoding {
  std::int64_t channels = 3;
  bool is_upright = false;  // as EXIF says
};
/// data.exif, and what its value asks for.
ir::ParameterSpec exif_parameter();
Decoding decoding(const ir::Attributes& values, std::int64_t channels);
/// buffer.file as pixels in buffer.pixels.
StoredImage decode_file(ReadBuffer& buffer, std::string_view name, const Decoding& how,
                        const BoxFunction& needed);
/// Begins a fingerprint: what pixels of files depend on beside the files.
std::string decoding_stamp(std::string_view what, const Decoding& how);

/// JPEG and PNG files, decoded when they are read.
class ImageFiles final : public ImageSource {
 public:
  ImageFiles(const Decoding& how, ImageFileList list) : decoding_(how), list_(std::move(list)) {}

  std::string name() const override;
  std::int64_t count() const override { return std::ssize(list_.files); }
  ir::Shape shape() const override { return {decoding_.channels, 0, 0}; }
  std::int64_t label(std::int64_t index) const override { return at(index).label; }
  StoredImage decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const override;
  std::string sample_name(std::int64_t index) const override;
  std::vector<std::string> class_names() const override { return list_.classes; }
  SourceNotes notes() const override { return notes_of(list_); }
  std::string fingerprint() const override;

 private:
  const ImageFile& at(std::int64_t index) const { return list_.files[static_cast<std::size_t>(index)]; }

  Decoding decoding_;
  ImageFileList list_;
};

}  // namespace rewire::runtime

// Labelled images with files of their own: the common part of the layouts of such files on a disk.
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

/// Counts of files that look like images but are not taken, by kind: ".webp", "hidden".
using UnreadKinds = std::map<std::string, std::int64_t>;
/// Formats the counts: "8 .webp, 2 hidden".
std::string unread_text(const UnreadKinds& kinds);

/// Joins names: "a, b, …", at most five, so that a message stays one line.
std::string names_text(const std::vector<std::string>& names);

struct ImageFileList {
  std::string folder;                // prefix of all paths
  std::vector<std::string> classes;  // names by label
  std::vector<ImageFile> files;
  UnreadKinds unread;
  SourceNotes notes;  // without `unread`
};

/// Returns the notes of a source of the list, with what is unread.
SourceNotes notes_of(const ImageFileList& list);

/// A folder of images, ROOT/SPLIT/CLASS/…/NAME.
struct ImageFolder {
  std::filesystem::path root;
  std::string train = "train", test = "val";  // folders of the splits
  bool allows_empty = false;                  // allows classes without images
  bool counts_naturally = false;              // sorts class "2" before "10"
  std::string class_map = {};  // file that gives folders their classes (class_map_file.h); "": none
};
/// Lists the images of a split. The classes come from train; test images are labelled by name, and test may
/// lack classes. With a class map, the map names the classes, or nothing does if it gives labels. Throws
/// UserError naming the folder or file and its fault.
ImageFileList list_image_folder(const ImageFolder& folder, Split split);
/// Lists the images of Tiny ImageNet as it is distributed.
ImageFileList list_tiny_imagenet(const std::filesystem::path& folder, Split split);

/// Returns the paths in a folder, sorted byte by byte, without names that begin with a dot. Throws UserError
/// if it cannot be read.
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder);
bool is_image_folder(const std::filesystem::path& path);
bool has_file(const std::filesystem::path& path);
/// Returns the folders in `folder` that may be classes, sorted. Hidden and system folders, such as __MACOSX,
/// are left out; their names are added to `others`.
std::vector<std::string> class_folders(const std::filesystem::path& folder, std::vector<std::string>& others);
std::vector<std::string> class_folders(const std::filesystem::path& folder);
/// Adds the images below `folder`, in the order of their names. A name without a suffix counts if the file
/// begins like an image. Links are followed, and counted if they lead out of `root`. Throws UserError if
/// folders lie too deep.
void collect_images(const std::filesystem::path& root, const std::filesystem::path& folder,
                    std::int64_t label, ImageFileList& list);
/// Returns true if a path, with its links resolved, is `root` or below it.
bool is_below(const std::filesystem::path& root, const std::filesystem::path& path);
/// Reads the whole of a file of a data set. Throws UserError, also on a pipe or a device.
std::vector<std::byte> read_regular_file(const std::string& path,
                                         std::size_t most = std::numeric_limits<std::size_t>::max());
/// Returns the lines of a text file without their ends (LF or CRLF). Throws UserError, also for more than
/// `most` lines.
std::vector<std::string> lines_of_file(const std::string& path, std::size_t most);
/// Throws UserError unless the network takes as many channels as image files can give: 1 or 3.
void check_image_channels(const std::string& folder, std::int64_t channels);
/// Returns path, size and times of change, for a fingerprint. Throws UserError if the file is gone.
std::string file_stamp(const std::string& path);

/// The decoding of a source's files.
struct Decoding {
  std::int64_t channels = 3;
  bool is_upright = false;  // turned as EXIF says
};
/// The parameter data.exif; decoding() converts its value.
ir::ParameterSpec exif_parameter();
Decoding decoding(const ir::Attributes& values, std::int64_t channels);
/// Decodes buffer.file into buffer.pixels.
StoredImage decode_file(ReadBuffer& buffer, std::string_view name, const Decoding& how,
                        const BoxFunction& needed);
/// Returns the beginning of a fingerprint: the settings that pixels depend on besides the files.
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

// Tiny ImageNet as it is distributed: PATH/train/WNID/images/NAME.JPEG, and PATH/val/images/NAME.JPEG with
// the classes in PATH/val/val_annotations.txt. Classes are numbered in the order of the names of train's
// folders, as in torchvision's ImageFolder.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <unordered_map>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/vision/sources/image_files.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

constexpr const char* kAnnotations = "val_annotations.txt";

/// A line of val_annotations.txt: the file, its class and a box, separated by tabs.
struct AnnotationLine {
  std::string_view file, wnid;
};

/// Returns false if the line has another form.
bool parse_annotation(std::string_view line, AnnotationLine& parsed) {
  constexpr std::size_t kFields = 6;
  std::string_view fields[kFields];
  for (std::size_t i = 0; i < kFields; ++i) {
    const std::size_t end = line.find('\t');
    if ((end == std::string_view::npos) != (i + 1 == kFields)) return false;
    fields[i] = line.substr(0, end);
    line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
    if (fields[i].empty()) return false;
  }
  for (std::size_t i = 2; i < kFields; ++i) {
    double number = 0;
    const char* end = fields[i].data() + fields[i].size();
    const auto read = std::from_chars(fields[i].data(), end, number);
    if (read.ec != std::errc() || read.ptr != end || !std::isfinite(number)) return false;
  }
  parsed = {fields[0], fields[1]};
  return true;
}

class AnnotationReader {
 public:
  AnnotationReader(const std::filesystem::path& folder, ImageFileList& list)
      : path_((folder / kAnnotations).string()), list_(list) {
    for (std::size_t label = 0; label < list.classes.size(); ++label)
      labels_.emplace(list.classes[label], static_cast<std::int64_t>(label));
    ImageFileList found;
    collect_images(folder.parent_path(), folder / "images", 0, found);
    list.unread = std::move(found.unread);
    list.notes = std::move(found.notes);
    const std::size_t before = (folder / "images" / "").native().size();
    for (ImageFile& image : found.files) {
      const std::string name = image.path.substr(before);
      unread_.emplace(name, std::move(image.path));
    }
  }

  void read() {
    constexpr std::size_t kMostLines = 100'000'000;
    for (const std::string& line : lines_of_file(path_, kMostLines)) {
      ++line_;
      add(line);
    }
    if (lines_.empty()) user_error("{}: it has no lines: download the file again", visible(path_));
    if (unread_.empty()) return;
    const auto first = std::ranges::min_element(unread_, {}, [](const auto& image) { return image.first; });
    user_error("{}: no line for {}: {} of the images have none; download the files again", visible(path_),
               visible(first->second), unread_.size());
  }

 private:
  void add(std::string_view line) {
    AnnotationLine parsed;
    if (!parse_annotation(line, parsed)) {
      user_error("{} line {}: {} is not a file, its class and four numbers, separated by tabs",
                 visible(path_), line_, printable(line));
    }
    const std::string file(parsed.file);
    const auto label = labels_.find(std::string(parsed.wnid));
    if (label == labels_.end()) {
      user_error("{} line {}: {} has the class {}, for which train has no folder", visible(path_), line_,
                 printable(file), printable(parsed.wnid));
    }
    const auto [earlier, is_new] = lines_.emplace(file, line_);
    if (!is_new) {
      user_error("{} line {}: {} is already in line {}", visible(path_), line_, printable(file),
                 earlier->second);
    }
    const auto image = unread_.find(file);
    if (image == unread_.end()) {
      user_error("{} line {}: {} is not in the folder images next to it", visible(path_), line_,
                 printable(file));
    }
    list_.files.push_back({std::move(image->second), label->second});
    unread_.erase(image);
  }

  std::string path_;
  ImageFileList& list_;
  std::int64_t line_ = 0;
  std::unordered_map<std::string, std::int64_t> labels_;  // by wnid
  std::unordered_map<std::string, std::string>
      unread_;  // paths by name, of images that no line has named yet
  std::unordered_map<std::string, std::int64_t> lines_;  // the line that named a file
};

/// Often val's images have been moved into one folder per class, as training's are.
[[noreturn]] void refuse_without_annotations(const std::filesystem::path& val) {
  if (!is_image_folder(val)) user_error("{}: No such file or directory", visible(val.native()));
  const std::vector<std::string> folders = class_folders(val);
  if (std::ranges::any_of(folders, [](const std::string& name) { return name != "images"; })) {
    user_error("{}: it has a folder per class but no {}: set data.format=folder", visible(val.native()),
               kAnnotations);
  }
  user_error("{}: it has no {}: download the files again", visible(val.native()), kAnnotations);
}

void list_train(const std::filesystem::path& train, ImageFileList& list) {
  for (std::size_t label = 0; label < list.classes.size(); ++label) {
    const std::filesystem::path folder = train / list.classes[label];
    if (!is_image_folder(folder / "images")) {
      user_error(
          "{}: it has no folder images: if the classes' folders hold the images, set data.format=folder",
          visible(folder.native()));
    }
    const std::size_t before = list.files.size();
    collect_images(train.parent_path(), folder / "images", static_cast<std::int64_t>(label), list);
    if (list.files.size() == before)
      user_error("{}: this class has no JPEG or PNG file", visible((folder / "images").native()));
  }
}

std::unique_ptr<Source> open_tiny_imagenet(const ir::Attributes& values, const SourceContext& asks) {
  const ImageContext context = image_context(asks);
  const std::string& folder = values.get_string("path");
  if (folder.empty()) user_error("data.path is empty: set it to the folder of Tiny ImageNet");
  check_image_channels(folder, context.image[0]);
  return std::make_unique<ImageFiles>(decoding(values, context.image[0]),
                                      list_tiny_imagenet(folder, context.split));
}

bool is_tiny_imagenet(const std::string& path) {
  const std::filesystem::path folder = path;
  return is_image_folder(folder / "train") && has_file(folder / "val" / kAnnotations);
}

}  // namespace

ImageFileList list_tiny_imagenet(const std::filesystem::path& folder, Split split) {
  const std::filesystem::path train = folder / "train", val = folder / "val";
  ImageFileList list{(split == Split::train ? train : val).string(), class_folders(train), {}, {}, {}};
  if (list.classes.empty())
    user_error("{}: it has no folders; each class needs one", visible(train.native()));
  if (split == Split::train) {
    list_train(train, list);
  } else {
    if (!has_file(val / kAnnotations)) refuse_without_annotations(val);
    AnnotationReader(val, list).read();
  }
  return list;
}

extern const SourceRow kTinyImagenetSource{
    "tiny_imagenet",
    "Tiny ImageNet as it is distributed",
    {ir::path_parameter("path", "", "folder that holds train and val"), exif_parameter()},
    open_tiny_imagenet,
    is_tiny_imagenet};

}  // namespace rewire::runtime

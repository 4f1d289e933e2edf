// A folder of images, as in torchvision's ImageFolder: PATH/SPLIT/CLASS/…/NAME.{jpg,jpeg,jpe,jfif,png}. The
// classes are those of the training split, in the order of their folders' names. Images are in the order of
// their names in each folder. Names are compared byte by byte, or by the numbers in them. A class map
// assigns folders to classes instead.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/vision/sources/class_map_file.h"
#include "runtime/data/vision/sources/image_files.h"

namespace rewire::runtime {
namespace {

bool is_number(char c) {
  return c >= '0' && c <= '9';
}

/// Takes the digits at the start of `text`, without leading zeros.
std::string_view take_digits(std::string_view& text) {
  const auto end = std::ranges::find_if_not(text, is_number);
  std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

/// Compares consecutive digits as one number and all else byte by byte. If these are equal
/// ("1", "01"), the bytes decide.
bool is_before_naturally(const std::string& one, const std::string& other) {
  std::string_view left = one, right = other;
  while (!left.empty() && !right.empty()) {
    if (is_number(left[0]) && is_number(right[0])) {
      const std::string_view first = take_digits(left), second = take_digits(right);
      if (first.size() != second.size()) return first.size() < second.size();
      if (first != second) return first < second;
    } else {
      if (left[0] != right[0])
        return static_cast<unsigned char>(left[0]) < static_cast<unsigned char>(right[0]);
      left.remove_prefix(1);
      right.remove_prefix(1);
    }
  }
  if (left.empty() != right.empty()) return left.empty();
  return one < other;
}

bool is_before(const std::string& one, const std::string& other) {
  return one < other;
}

/// Refuses a split whose folder is missing. The error names the existing folders, one of which may be meant.
[[noreturn]] void refuse_missing(const ImageFolder& folder, Split split) {
  const bool is_train = split == Split::train;
  const std::filesystem::path missing = folder.root / (is_train ? folder.train : folder.test);
  std::vector<std::string> others;
  if (is_image_folder(folder.root)) others = class_folders(folder.root);
  std::erase(others, is_train ? folder.test : folder.train);
  user_error("{}: No such file or directory{}", visible(missing.native()),
             others.empty() ? std::string()
                            : fmt::format("; set data.{}_split to one of the existing folders: {}",
                                          is_train ? "train" : "test", names_text(others)));
}

/// Reads the classes of both splits, then the images of one.
class FolderLister {
 public:
  FolderLister(const ImageFolder& folder, Split split)
      : folder_(folder),
        is_test_(split == Split::test),
        path_(folder.root / (is_test_ ? folder.test : folder.train)) {
    if (!is_image_folder(path_)) refuse_missing(folder, split);
    list_.folder = path_.string();
  }

  ImageFileList run() {
    std::vector<std::string> others;
    own_ = class_folders(path_, others);
    if (own_.empty()) user_error("{}: it has no folders; each class needs one", visible(path_.native()));
    note("folders that are not classes", others);
    if (folder_.class_map.empty()) {
      read_classes();
    } else {
      read_class_map();
    }
    std::vector<std::string> absent, empty;
    const bool maps = !folder_.class_map.empty();
    for (const auto& [name, label] : labels_) {
      if (!std::ranges::binary_search(own_, name)) {
        absent.push_back(name);
      } else if (!collect(name, label)) {
        if (!maps && !folder_.allows_empty) refuse_empty(name);
        empty.push_back(name);
      }
    }
    if (maps && !folder_.allows_empty) refuse_empty_classes(empty);
    note(maps ? "folders without an image" : "classes without an image", empty);
    note(maps ? "folders of data.class_map that are missing here"
              : "classes of training without a folder here",
         absent);
    if (list_.files.empty()) user_error("{}: it holds no image", visible(path_.native()));
    return std::move(list_);
  }

 private:
  void note(std::string_view what, const std::vector<std::string>& names) {
    if (!names.empty())
      list_.notes.left_out.push_back(fmt::format("{}: {} ({})", what, names.size(), names_text(names)));
  }

  /// Reads the classes, which are the folders of the training split in order.
  void read_classes() {
    const std::filesystem::path train = folder_.root / folder_.train, test = folder_.root / folder_.test;
    list_.classes = own_;
    if (is_test_ && is_image_folder(train)) list_.classes = class_folders(train);
    if (is_image_folder(train) && is_image_folder(test)) {
      for (const std::string& name : is_test_ ? own_ : class_folders(test)) {
        if (!std::ranges::binary_search(list_.classes, name)) {
          user_error("{}: {} has no folder of that class to train on: remove it, or rename one of them",
                     visible((test / name).native()), visible(train.native()));
        }
      }
    }
    if (folder_.counts_naturally) std::ranges::sort(list_.classes, is_before_naturally);
    for (const std::string& name : list_.classes) labels_.emplace_back(name, std::ssize(labels_));
  }

  void read_class_map() {
    ClassMap map = runtime::read_class_map(folder_.class_map,
                                           folder_.counts_naturally ? is_before_naturally : is_before);
    for (const std::string& name : own_) {
      if (!map.labels.contains(name)) {
        user_error("{}: {} has no line for this folder: add one, or remove the folder",
                   visible((path_ / name).native()), visible(folder_.class_map));
      }
    }
    labels_.assign(map.labels.begin(), map.labels.end());
    list_.classes = std::move(map.classes);
  }

  /// Returns false if the folder has no image.
  bool collect(const std::string& name, std::int64_t label) {
    const std::size_t before = list_.files.size();
    UnreadKinds unread = list_.unread;
    collect_images(folder_.root, path_ / name, label, list_);
    if (list_.files.size() > before) return true;
    UnreadKinds here = list_.unread;
    for (const auto& [kind, count] : unread) here[kind] -= count;
    unread_[name] = unread_text(here);
    return false;
  }

  [[noreturn]] void refuse_empty(const std::string& name) const {
    const std::string& text = unread_.at(name);
    user_error("{}: this class has no JPEG or PNG file{}: remove it, or set data.allow_empty=true",
               visible((path_ / name).native()), text.empty() ? "" : ", but " + text);
  }

  /// Refuses a class without an image. A class may have several folders.
  void refuse_empty_classes(const std::vector<std::string>& empty) const {
    std::set<std::int64_t> filled;
    for (const ImageFile& file : list_.files) filled.insert(file.label);
    for (const auto& [name, label] : labels_) {
      if (std::ranges::find(empty, name) != empty.end() && !filled.contains(label)) refuse_empty(name);
    }
  }

  const ImageFolder& folder_;
  bool is_test_;
  std::filesystem::path path_;
  std::vector<std::string> own_;                              // folders of this split, sorted byte by byte
  std::vector<std::pair<std::string, std::int64_t>> labels_;  // of folders that may be here, in order
  std::map<std::string, std::string> unread_;                 // of empty ones, what is in them
  ImageFileList list_;
};

std::unique_ptr<Source> open_folder(const ir::Attributes& values, const SourceContext& asks) {
  const ImageContext context = image_context(asks);
  ImageFolder folder{values.get_string("path"),
                     values.get_string("train_split"),
                     values.get_string("test_split"),
                     values.get_bool("allow_empty"),
                     values.get_string("class_order") == "natural",
                     values.get_string("class_map")};
  if (folder.root.empty()) user_error("data.path is empty: set it to the folder of images");
  check_image_channels(folder.root.native(), context.image[0]);
  return std::make_unique<ImageFiles>(decoding(values, context.image[0]),
                                      list_image_folder(folder, context.split));
}

/// Returns false for Tiny ImageNet, whose folders begin in the same way.
bool is_folder_of_classes(const std::string& path) {
  const std::filesystem::path train = std::filesystem::path(path) / "train";
  if (!is_image_folder(train) || has_file(std::filesystem::path(path) / "val" / "val_annotations.txt"))
    return false;
  std::error_code error;
  for (std::filesystem::directory_iterator at(train, error), end; !error && at != end; at.increment(error)) {
    if (is_image_folder(at->path()) && !at->path().filename().native().starts_with('.')) return true;
  }
  return false;
}

}  // namespace

ImageFileList list_image_folder(const ImageFolder& folder, Split split) {
  return FolderLister(folder, split).run();
}

extern const SourceRow kFolderSource{
    "folder",
    "JPEG and PNG files, one folder per class",
    {ir::path_parameter("path", "", "folder of both splits"),
     ir::text_parameter("train_split", "train", "subfolder of the training images"),
     ir::text_parameter("test_split", "val", "subfolder of the test images"),
     ir::enum_parameter("class_order", {"name", "natural"},
                        "order of the class folders; name: byte by byte; natural: numbers in names by value"),
     ir::path_parameter("class_map", "",
                        "file that assigns class folders to classes, FOLDER<TAB>NAME or LABEL per line; "
                        "empty: a folder's name is its class"),
     ir::bool_parameter("allow_empty", false, "accept class folders without images"), exif_parameter()},
    open_folder,
    is_folder_of_classes};

}  // namespace rewire::runtime

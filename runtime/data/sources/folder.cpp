// A folder of images, as torchvision's ImageFolder: PATH/SPLIT/CLASS/…/NAME.{jpg,jpeg,png}. Classes count in the order
// of their folders' names; images follow each other as the names in each folder do. Names are compared byte by byte.
#include <filesystem>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/sources/image_files.h"

namespace rewire::runtime {
namespace {

std::unique_ptr<ImageSource> open_folder(const ir::Attributes& values, const SourceContext& context) {
  const std::filesystem::path folder = values.get_string("path");
  if (folder.empty()) user_error("data.path is empty: set it to the folder of images");
  const std::filesystem::path train = folder / values.get_string("train_split"),
                              test = folder / values.get_string("test_split");
  check_image_channels(folder.native(), context.image[0]);
  const bool is_train = context.split == Split::train;
  return std::make_unique<ImageFiles>(
      context.image[0], is_train ? list_image_folder(train, test) : list_image_folder(test, train));
}

/// Tiny ImageNet's folders begin alike.
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

ImageFileList list_image_folder(const std::filesystem::path& split,
                                const std::filesystem::path& other_split) {
  ImageFileList list{split.string(), class_folders(split), {}};
  if (list.classes.empty())
    user_error("{}: it holds no folders, of which each would be a class", visible(split.native()));
  if (is_image_folder(other_split) && class_folders(other_split) != list.classes) {
    user_error("{} and {} do not hold the same folders: a class of images each", visible(split.native()),
               visible(other_split.native()));
  }
  for (std::size_t label = 0; label < list.classes.size(); ++label) {
    const std::filesystem::path folder = split / list.classes[label];
    const std::size_t before = list.files.size();
    collect_images(folder, static_cast<std::int64_t>(label), list.files);
    if (list.files.size() == before) {
      user_error("{}: no image in this class: no file that ends in .jpg, .jpeg or .png",
                 visible(folder.native()));
    }
  }
  return list;
}

extern const SourceRow kFolderSource{
    "folder",
    "JPEG and PNG files in a folder for each class",
    {ir::path_parameter("path", "", "the folder that holds the splits"),
     ir::text_parameter("train_split", "train", "its folder of training images"),
     ir::text_parameter("test_split", "val", "its folder of images for evaluation")},
    open_folder,
    is_folder_of_classes};

}  // namespace rewire::runtime

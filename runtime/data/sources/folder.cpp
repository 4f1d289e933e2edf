// A folder of images, as torchvision's ImageFolder: PATH/SPLIT/CLASS/…/NAME.{jpg,jpeg,png}. Classes count in the order
// of their folders' names; images follow each other as the names in each folder do. Names are compared byte by byte.
#include <algorithm>
#include <filesystem>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/image_file.h"
#include "runtime/data/source.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDepth = 16;  // of folders in a class: links may lead in circles

struct ImageFile {
  std::string path;
  std::int64_t label;
};

/// The names in a folder, sorted; those that begin with a dot are left out.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().native().starts_with('.')) all.push_back(at->path());
  }
  if (error) user_error("{}: {}", visible(folder.native()), error.message());
  std::ranges::sort(all, {}, [](const fs::path& path) -> const std::string& { return path.native(); });
  return all;
}

/// What would silently be missing from a class.
bool is_other_image(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  constexpr std::string_view kOthers[] = {".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp"};
  return std::ranges::find(kOthers, ending) != std::end(kOthers);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::vector<std::string> class_names(const fs::path& split) {
  std::vector<std::string> names;
  for (const fs::path& path : entries(split)) {
    if (is_folder(path)) names.push_back(path.filename().string());
  }
  return names;
}

void collect(const fs::path& folder, std::int64_t label, int depth, std::vector<ImageFile>& files) {
  if (depth > kMostDepth) {
    user_error("{}: folders {} deep: does a link lead back to one of them?", visible(folder.native()),
               kMostDepth);
  }
  for (const fs::path& path : entries(folder)) {
    if (is_folder(path)) {
      collect(path, label, depth + 1, files);
    } else if (is_image_name(path.native())) {
      files.push_back({path.string(), label});
    } else if (is_other_image(path)) {
      user_error("{}: only JPEG and PNG files are read: convert it, or take it out of the folder",
                 visible(path.native()));
    }
  }
}

class ImageFolder final : public ImageSource {
 public:
  ImageFolder(std::string name, std::int64_t channels, std::vector<ImageFile> files)
      : name_(std::move(name)), channels_(channels), files_(std::move(files)) {}

  std::string name() const override { return name_; }
  std::int64_t count() const override { return std::ssize(files_); }
  ir::Shape shape() const override { return {channels_, 0, 0}; }
  std::int64_t label(std::int64_t index) const override { return at(index).label; }
  StoredImage read(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const override {
    const std::string& path = at(index).path;
    buffer.file = read_file(path);
    const ImageSize size = decode_image(buffer.file, path, channels_, buffer.pixels, needed);
    return {buffer.pixels, size.height, size.width};
  }

 private:
  const ImageFile& at(std::int64_t index) const { return files_[static_cast<std::size_t>(index)]; }

  std::string name_;
  std::int64_t channels_;
  std::vector<ImageFile> files_;
};

std::unique_ptr<ImageSource> open_folder(const ir::Attributes& values, const SourceContext& context) {
  const fs::path folder = values.get_string("path");
  if (folder.empty()) user_error("data.path is empty: set it to the folder of images");
  const fs::path train = folder / values.get_string("train_split"),
                 test = folder / values.get_string("test_split");
  const fs::path& split = context.split == Split::train ? train : test;
  if (context.image[0] != 1 && context.image[0] != 3)
    user_error("{}: images have 1 or 3 channels, model.channels is {}", visible(folder.native()),
               context.image[0]);
  const std::vector<std::string> classes = class_names(split);
  if (classes.empty())
    user_error("{}: it holds no folders, of which each would be a class", visible(split.native()));
  const fs::path& other = context.split == Split::train ? test : train;
  if (is_folder(other) && class_names(other) != classes) {
    user_error("{} and {} do not hold the same folders: a class of images each", visible(train.native()),
               visible(test.native()));
  }
  std::vector<ImageFile> files;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const std::size_t before = files.size();
    collect(split / classes[label], static_cast<std::int64_t>(label), 1, files);
    if (files.size() == before) {
      user_error("{}: no image in this class: no file that ends in .jpg, .jpeg or .png",
                 visible((split / classes[label]).native()));
    }
  }
  return std::make_unique<ImageFolder>(visible(split.native()), context.image[0], std::move(files));
}

}  // namespace

extern const SourceRow kFolderSource{
    "folder",
    "JPEG and PNG files in a folder for each class",
    {ir::path_parameter("path", "", "the folder that holds the splits"),
     ir::text_parameter("train_split", "train", "its folder of training images"),
     ir::text_parameter("test_split", "val", "its folder of images for evaluation")},
    open_folder};

}  // namespace rewire::runtime

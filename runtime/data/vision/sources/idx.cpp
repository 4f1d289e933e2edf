// The MNIST family's four files in a folder: {train,t10k}-images-idx3-ubyte and -labels-idx1-ubyte, plain or
// with .gz. The plain file is used if both exist. Images have one channel.
#include "runtime/data/vision/idx.h"

#include <filesystem>

#include "ir/error.h"
#include "runtime/data/vision/sources/image_files.h"
#include "runtime/data/vision/stored_images.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

/// Returns FOLDER/STEM or FOLDER/STEM.gz.
std::string find_file(const std::string& folder, const std::string& stem) {
  const std::string plain = (std::filesystem::path(folder) / stem).string();
  for (const std::string& path : {plain, plain + ".gz"}) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  const std::string hint = folder == kFashionMnistFolder ? "install the Debian package dataset-fashion-mnist"
                                                         : "set data.path to the folder that holds it";
  user_error("cannot find {} or {}.gz; {}", plain, stem, hint);
}

struct NamedArray {
  std::string path;
  IdxArray array;
};

NamedArray read_array(const std::string& folder, const std::string& stem, std::size_t rank) {
  const std::string path = find_file(folder, stem);
  IdxArray array = parse_idx(read_regular_file(path), path);
  if (array.shape.size() != rank) {
    user_error("{}: its rank is {}, but must be {}", path, array.shape.size(), rank);
  }
  return {path, std::move(array)};
}

std::unique_ptr<Source> read_folder(const ir::Attributes& values, const SourceContext& asks) {
  const ImageContext context = image_context(asks);
  const std::string& folder = values.get_string("path");
  if (folder.empty())
    user_error("data.path is empty: set it to the folder that holds the IDX files, or data.format=synthetic");
  const std::string stem = context.split == Split::train ? "train" : "t10k";
  NamedArray images = read_array(folder, stem + "-images-idx3-ubyte", 3);
  const NamedArray labels = read_array(folder, stem + "-labels-idx1-ubyte", 1);
  const std::vector<std::int64_t>& shape = images.array.shape;
  const std::vector<std::uint8_t>& classes = labels.array.data;
  if (shape[0] != labels.array.shape[0]) {
    user_error("{} holds {} images, but {} holds {} labels", images.path, shape[0], labels.path,
               labels.array.shape[0]);
  }
  check_labels(
      labels.path, std::ssize(classes), [&](std::int64_t i) { return classes[static_cast<std::size_t>(i)]; },
      context.classes);
  return std::make_unique<StoredImages>(folder, ir::Shape{1, shape[1], shape[2]},
                                        std::move(images.array.data),
                                        std::vector<std::int32_t>(classes.begin(), classes.end()));
}

bool is_idx(const std::string& path) {
  const std::filesystem::path folder = path;
  return has_file(folder / "train-images-idx3-ubyte") || has_file(folder / "train-images-idx3-ubyte.gz");
}

}  // namespace

extern const SourceRow kIdxSource{
    "idx",
    "a folder of the MNIST family: four IDX files, plain or gzip",
    {ir::path_parameter("path", kFashionMnistFolder, "folder of the four IDX files")},
    read_folder,
    is_idx};

}  // namespace rewire::runtime

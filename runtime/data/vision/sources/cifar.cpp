// CIFAR-10 and CIFAR-100 in their binary form: a folder with data_batch_{1..5}.bin and
// test_batch.bin, or with train.bin and test.bin. A record is a label byte (CIFAR-100: coarse, then
// fine) and 3 planes of 32 x 32 bytes.
#include <filesystem>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/vision/sources/image_files.h"
#include "runtime/data/vision/stored_images.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kSide = 32;
constexpr std::size_t kPixels = 3 * kSide * kSide;

struct Records {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
};

void append(const std::string& path, std::size_t label_bytes, std::size_t label_at, std::int64_t classes,
            Records& records) {
  const std::vector<std::byte> file = read_regular_file(path);
  const std::size_t size = label_bytes + kPixels;
  if (file.empty() || file.size() % size != 0) {
    user_error(
        "{}: {} bytes are not records of {} ({} of labels, 3 x 32 x 32 of pixels): download the file again",
        path, file.size(), size, label_bytes);
  }
  const auto label_of = [&](std::size_t at) { return std::to_integer<std::int32_t>(file[at + label_at]); };
  check_labels(
      path, static_cast<std::int64_t>(file.size() / size),
      [&](std::int64_t i) { return label_of(static_cast<std::size_t>(i) * size); }, classes);
  for (std::size_t at = 0; at < file.size(); at += size) {
    records.labels.push_back(label_of(at));
    const auto* pixels = reinterpret_cast<const std::uint8_t*>(file.data()) + at + label_bytes;
    records.pixels.insert(records.pixels.end(), pixels, pixels + kPixels);
  }
}

bool is_cifar(const std::string& path) {
  return has_file(std::filesystem::path(path) / "data_batch_1.bin") ||
         (has_file(std::filesystem::path(path) / "train.bin") &&
          has_file(std::filesystem::path(path) / "test.bin"));
}

/// Returns the lines of the text beside the records; none if it is missing or names
/// another number of classes.
std::vector<std::string> cifar_classes(const std::string& folder, std::string_view name,
                                       std::size_t classes) {
  constexpr std::size_t kMostNames = 1000;
  if (!has_file(std::filesystem::path(folder) / name)) return {};
  std::vector<std::string> names = lines_of_file((std::filesystem::path(folder) / name).string(), kMostNames);
  std::erase(names, "");
  if (names.size() != classes) names.clear();
  return names;
}

std::unique_ptr<Source> read_cifar(const ir::Attributes& values, const SourceContext& asks) {
  const ImageContext context = image_context(asks);
  const std::string& folder = values.get_string("path");
  if (folder.empty()) user_error("data.path is empty: set it to the folder that holds CIFAR's .bin files");
  const auto file = [&](std::string_view name) { return (std::filesystem::path(folder) / name).string(); };
  const auto exists = [&](std::string_view name) { return has_file(std::filesystem::path(folder) / name); };
  const bool is_train = context.split == Split::train;
  const bool is_10 = exists("data_batch_1.bin") || exists("test_batch.bin");
  const bool is_100 = exists("train.bin") || exists("test.bin");
  if (is_10 && is_100) user_error("{}: it has files of both CIFAR-10 and CIFAR-100", visible(folder));
  if (!is_10 && !is_100) {
    user_error(
        "{}: it has neither CIFAR-10's data_batch_1.bin nor CIFAR-100's train.bin: set data.path to the "
        "folder that has one",
        visible(folder));
  }
  Records records;
  const bool fine = values.get_string("labels") == "fine";
  if (is_100) {
    append(file(is_train ? "train.bin" : "test.bin"), 2, fine ? 1 : 0, context.classes, records);
  } else {
    if (!is_train) append(file("test_batch.bin"), 1, 0, context.classes, records);
    for (const char batch : std::string_view(is_train ? "12345" : ""))
      append(file(std::string("data_batch_") + batch + ".bin"), 1, 0, context.classes, records);
  }
  std::vector<std::string> classes = is_10  ? cifar_classes(folder, "batches.meta.txt", 10)
                                     : fine ? cifar_classes(folder, "fine_label_names.txt", 100)
                                            : cifar_classes(folder, "coarse_label_names.txt", 20);
  return std::make_unique<StoredImages>(folder, ir::Shape{3, kSide, kSide}, std::move(records.pixels),
                                        std::move(records.labels), std::move(classes));
}

}  // namespace

extern const SourceRow kCifarSource{
    "cifar",
    "a folder of CIFAR-10 or CIFAR-100 in binary form",
    {ir::path_parameter("path", "", "folder of the binary files"),
     ir::enum_parameter("labels", {"fine", "coarse"}, "labels of CIFAR-100; fine: 100 classes; coarse: 20")},
    read_cifar,
    is_cifar};

}  // namespace rewire::runtime

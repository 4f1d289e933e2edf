// CIFAR's binary files, made up in their real layout, and damaged.
#include <filesystem>

#include "ir/error.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/io/files.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using test::message_of;
using test::TemporaryFolder;

constexpr std::size_t kPixels = 3072;

/// Record `number`: its labels, and pixels that count from it.
std::string record(int number, const std::string& labels) {
  std::string text = labels;
  for (std::size_t i = 0; i < kPixels; ++i)
    text += static_cast<char>(static_cast<std::size_t>(number) + i / 7);
  return text;
}

std::unique_ptr<ImageSource> open(const TemporaryFolder& folder, Split split, std::int64_t classes = 0,
                                  const std::string& labels = "fine") {
  ir::Selection selection{"cifar"};
  selection.set("path", folder.path().string()).set("labels", labels);
  return make_image_source(selection, {split, {3, 32, 32}, classes});
}

std::vector<std::int64_t> labels_of(const ImageSource& source) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < source.count(); ++i) labels.push_back(source.label(i));
  return labels;
}

void check_pixels(const ImageSource& source, const std::vector<int>& numbers) {
  ReadBuffer buffer;
  REQUIRE(source.count() == std::ssize(numbers));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const StoredImage image = source.decode(static_cast<std::int64_t>(i), buffer, nullptr);
    REQUIRE(image.pixels.size() == kPixels);
    bool same = image.height == 32 && image.width == 32;
    for (std::size_t p = 0; p < kPixels; ++p)
      same =
          same && image.pixels[p] == static_cast<std::uint8_t>(static_cast<std::size_t>(numbers[i]) + p / 7);
    CHECK(same);
  }
}

TEST_CASE("CIFAR-10: five files of training images, one of test images") {
  const TemporaryFolder folder;
  for (int batch = 1; batch <= 5; ++batch) {
    const auto label = [&](int i) { return std::string(1, static_cast<char>((batch + i) % 10)); };
    write_file_atomically(folder.file("data_batch_" + std::to_string(batch) + ".bin"),
                          record(10 * batch, label(0)) + record(10 * batch + 1, label(5)));
  }
  write_file_atomically(folder.file("test_batch.bin"), record(99, "\x09"));
  const auto train = open(folder, Split::train, 10);
  CHECK(train->shape() == ir::Shape{3, 32, 32});
  CHECK(labels_of(*train) == std::vector<std::int64_t>{1, 6, 2, 7, 3, 8, 4, 9, 5, 0});
  check_pixels(*train, {10, 11, 20, 21, 30, 31, 40, 41, 50, 51});
  const auto test = open(folder, Split::test);
  CHECK(labels_of(*test) == std::vector<std::int64_t>{9});
  check_pixels(*test, {99});
  CHECK(
      message_of<UserError>([&] { open(folder, Split::test, 9); }) ==
      folder.file("test_batch.bin") +
          ": sample 0 has label 9, of labels from 9 to 9, but the model has 9 classes: set model.classes=10");
}

TEST_CASE("CIFAR-100: fine and coarse labels") {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("train.bin"), record(1, "\x13\x63") + record(2, std::string("\0\7", 2)));
  write_file_atomically(folder.file("test.bin"), record(3, "\x01\x02"));
  CHECK(labels_of(*open(folder, Split::train)) == std::vector<std::int64_t>{99, 7});
  CHECK(labels_of(*open(folder, Split::train, 20, "coarse")) == std::vector<std::int64_t>{19, 0});
  check_pixels(*open(folder, Split::train), {1, 2});
  CHECK(labels_of(*open(folder, Split::test, 100)) == std::vector<std::int64_t>{2});
}

TEST_CASE("CIFAR files that are missing or damaged are named") {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  CHECK(message_of<UserError>([&] { open(folder, Split::train); }) ==
        path +
            ": it has neither CIFAR-10's data_batch_1.bin nor CIFAR-100's train.bin: set data.path to the "
            "folder that has one");
  write_file_atomically(folder.file("data_batch_1.bin"), record(0, "\x01"));
  CHECK(message_of<UserError>([&] {
          open(folder, Split::train);
        }).starts_with("cannot read " + folder.file("data_batch_2.bin")));
  write_file_atomically(folder.file("test.bin"), record(0, "\x01\x01").substr(1));
  CHECK(message_of<UserError>([&] { open(folder, Split::test); }) ==
        path + ": it has files of both CIFAR-10 and CIFAR-100");
  std::filesystem::remove(folder.file("data_batch_1.bin"));
  CHECK(message_of<UserError>([&] { open(folder, Split::test); }) ==
        folder.file("test.bin") +
            ": 3073 bytes are not records of 3074 (2 of labels, 3 x 32 x 32 of pixels): download the file "
            "again");
  write_file_atomically(folder.file("test.bin"), std::string_view());
  CHECK(message_of<UserError>([&] { open(folder, Split::test); }).find(": 0 bytes are not records") !=
        std::string::npos);
}

}  // namespace
}  // namespace rewire::runtime

// IDX files, plain and gzip: what they hold, and one clear line for every fault.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string_view>

#include "ir/error.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/idx.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/io/files.h"
#include "tests/runtime_data/idx_files.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using namespace std::string_literals;
using test::gzip;
using test::idx_header;
using test::message_of;
using test::TemporaryFolder;

IdxArray parse(const std::string& text) {
  return parse_idx(std::as_bytes(std::span(text.data(), text.size())), "f.idx");
}

std::string message(const std::string& text) {
  return message_of<UserError>([&] { parse(text); });
}

std::string counting_bytes(std::size_t count) {
  std::string text(count, '\0');
  std::iota(text.begin(), text.end(), '\0');
  return text;
}

const std::string kImages = idx_header({3, 2, 5}) + counting_bytes(30);

TEST_CASE("A plain array and its gzip are the same array") {
  for (const std::string& text : {kImages, gzip(kImages)}) {
    const IdxArray array = parse(text);
    CHECK(array.shape == std::vector<std::int64_t>{3, 2, 5});
    REQUIRE(array.data.size() == 30);
    for (std::size_t i = 0; i < 30; ++i) CHECK(array.data[i] == i);
  }
}

TEST_CASE("A gzip file of several streams is read through to its end") {
  const std::string text = gzip(kImages.substr(0, 20)) + gzip("") + gzip(kImages.substr(20));
  CHECK(parse(text).data == parse(kImages).data);
}

TEST_CASE("An array larger than one piece of the reader is read whole") {
  std::string bytes(3'000'001, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i % 251);
  const std::string text = idx_header({3'000'001}) + bytes;
  for (const std::string& file : {text, gzip(text)}) {
    const IdxArray array = parse(file);
    CHECK(std::ranges::equal(array.data, bytes, {}, {}, [](char c) { return static_cast<std::uint8_t>(c); }));
  }
}

TEST_CASE("Every truncation of a plain file and of a gzip file is refused") {
  for (const std::string& text : {kImages, gzip(kImages)}) {
    for (std::size_t size = 0; size < text.size(); ++size) {
      CAPTURE(size, text.size());
      CHECK(message(text.substr(0, size)).find("truncated") != std::string::npos);
    }
  }
  CHECK(message("") == "f.idx: truncated: the file ends within the magic number");
  CHECK(message(kImages.substr(0, 9)) == "f.idx: truncated: the file ends within the extents");
  CHECK(message(kImages.substr(0, 45)) ==
        "f.idx: truncated: the header claims 30 elements, but 29 bytes follow");
  CHECK(message(gzip(kImages.substr(0, 45))) ==
        "f.idx: truncated: the header claims 30 elements, the file holds 29");
  const std::string packed = gzip(kImages);
  CHECK(message(packed.substr(0, packed.size() - 1)) == "f.idx: truncated gzip data");
}

TEST_CASE("Damaged gzip data is refused by its checksum and its structure") {
  std::string packed = gzip(kImages);
  packed[packed.size() - 5] = static_cast<char>(packed[packed.size() - 5] ^ 1);  // in the checksum
  CHECK(message(packed) == "f.idx: corrupt gzip data: incorrect data check");
  CHECK(message(gzip(kImages) + "tail") == "f.idx: corrupt gzip data: incorrect header check");
  CHECK(message("\x1f\x8b\x09\x00"s) == "f.idx: corrupt gzip data: unknown compression method");
}

TEST_CASE("Bytes after the last element are refused") {
  CHECK(message(kImages + "x") == "f.idx: more bytes follow the 30 elements that the header claims");
  CHECK(message(gzip(kImages + "x")) == "f.idx: more bytes follow the 30 elements that the header claims");
}

TEST_CASE("What is no IDX file of bytes is refused") {
  CHECK(message("\x89PNG and more") == "f.idx: not an IDX file: its magic number is 89504e47");
  CHECK(message("\0\0\x08\0"s) == "f.idx: not an IDX file: its magic number is 00000800");
  CHECK(message(idx_header({1}, 0x0d) + "abcd") ==
        "f.idx: IDX elements have the type 0x0d; only bytes (0x08) are supported");
  CHECK(message(idx_header({2, 0})) == "f.idx: axis 1 has extent 0");
}

TEST_CASE("A claimed size beyond what the file can hold is refused before it is allocated") {
  CHECK(message(idx_header({4'000'000'000, 4'000'000'000}) + "x") ==
        "f.idx: truncated: the header claims 16000000000000000000 elements, but 1 bytes follow");
  CHECK(message(idx_header({4'000'000'000, 4'000'000'000, 4'000'000'000})) ==
        "f.idx: its extents multiply to more than 2^64 elements");
  const std::string zipped = message(gzip(idx_header({4'000'000'000, 4'000'000'000}) + "x"));
  CHECK(
      zipped.starts_with("f.idx: truncated: the header claims 16000000000000000000 elements, but at most "));
}

TEST_CASE("A gzip file that holds as much as deflate can pack is not taken for truncated") {
  const std::string text = idx_header({20'000'000}) + std::string(20'000'000, '\0');
  CHECK(parse(gzip(text)).data.size() == 20'000'000);
}

std::unique_ptr<ImageSource> open_folder(const std::string& path, Split split, std::int64_t classes = 0) {
  ir::Selection selection{"idx"};
  return make_image_source(selection.set("path", path), {split, {1, 28, 28}, classes});
}

class DataFolder {
 public:
  void write(const std::string& name, const std::string& text) const {
    write_file_atomically(folder_.file(name), text);
  }
  std::string file(const std::string& name) const { return folder_.file(name); }
  std::string path() const { return folder_.path().string(); }
  std::string message(Split split = Split::train) const {
    return message_of<UserError>([&] { open_folder(path(), split); });
  }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("A folder of plain or gzip files is a data set") {
  const DataFolder folder;
  folder.write("train-images-idx3-ubyte", kImages);
  folder.write("train-labels-idx1-ubyte.gz", gzip(idx_header({3}) + "\x07\x00\x02"s));
  folder.write("t10k-images-idx3-ubyte.gz", gzip(idx_header({1, 2, 5}) + counting_bytes(10)));
  folder.write("t10k-labels-idx1-ubyte", idx_header({1}) + "\x01"s);
  const auto train = open_folder(folder.path(), Split::train, 8);
  CHECK(train->name() == folder.path());
  CHECK(train->count() == 3);
  CHECK(train->shape() == ir::Shape{1, 2, 5});
  ReadBuffer buffer;
  const std::int64_t labels[] = {7, 0, 2};
  for (std::int64_t i = 0; i < 3; ++i) {
    CHECK(train->label(i) == labels[i]);
    const StoredImage image = train->decode(i, buffer, nullptr);
    REQUIRE(image.pixels.size() == 10);
    for (std::size_t pixel = 0; pixel < 10; ++pixel)
      CHECK(image.pixels[pixel] == static_cast<std::size_t>(i) * 10 + pixel);
  }
  CHECK(open_folder(folder.path(), Split::test)->count() == 1);

  CHECK(
      message_of<UserError>([&] { open_folder(folder.path(), Split::train, 7); }) ==
      folder.file("train-labels-idx1-ubyte.gz") +
          ": sample 0 has label 7, of labels from 0 to 7, but the model has 7 classes: set model.classes=8");
  // EMNIST's letters count from 1.
  folder.write("train-labels-idx1-ubyte.gz", gzip(idx_header({3}) + "\x01\x1a\x02"s));
  CHECK(message_of<UserError>([&] { open_folder(folder.path(), Split::train, 26); }) ==
        folder.file("train-labels-idx1-ubyte.gz") +
            ": sample 1 has label 26, of labels from 1 to 26, but the model has 26 classes: set "
            "model.classes=27; "
            "class 0 then has no samples");
  CHECK(open_folder(folder.path(), Split::train, 27)->count() == 3);
}

TEST_CASE("A folder without the files says which is missing and what to do") {
  const DataFolder folder;
  const std::string hint = "; set data.path to the folder that holds it";
  CHECK(folder.message() ==
        "cannot find " + folder.file("train-images-idx3-ubyte") + " or train-images-idx3-ubyte.gz" + hint);
  folder.write("train-images-idx3-ubyte", kImages);
  CHECK(folder.message() ==
        "cannot find " + folder.file("train-labels-idx1-ubyte") + " or train-labels-idx1-ubyte.gz" + hint);
}

TEST_CASE("Images and labels must agree, and be what their names say") {
  const DataFolder folder;
  const std::string images = folder.file("train-images-idx3-ubyte"),
                    labels = folder.file("train-labels-idx1-ubyte");
  folder.write("train-images-idx3-ubyte", kImages);
  folder.write("train-labels-idx1-ubyte", idx_header({2}) + "ab");
  CHECK(folder.message() == images + " holds 3 images, but " + labels + " holds 2 labels");
  folder.write("train-labels-idx1-ubyte", kImages);
  CHECK(folder.message() == labels + ": its rank is 3, but must be 1");
  folder.write("train-images-idx3-ubyte", idx_header({3}) + "abc");
  CHECK(folder.message() == images + ": its rank is 1, but must be 3");
}

TEST_CASE("The Debian package's Fashion-MNIST is read where it is installed") {
  const std::string folder(kFashionMnistFolder);
  if (!std::filesystem::exists(folder)) {
    WARN("dataset-fashion-mnist is not installed");
    return;
  }
  const auto train = open_folder(folder, Split::train, 10);
  CHECK(train->count() == 60'000);
  CHECK(train->shape() == ir::Shape{1, 28, 28});
  const auto test = open_folder(folder, Split::test, 10);
  CHECK(test->count() == 10'000);
  std::vector<int> per_class(10);
  for (std::int64_t i = 0; i < test->count(); ++i) ++per_class.at(static_cast<std::size_t>(test->label(i)));
  CHECK(per_class == std::vector<int>(10, 1000));  // the set is balanced
}

}  // namespace
}  // namespace rewire::runtime

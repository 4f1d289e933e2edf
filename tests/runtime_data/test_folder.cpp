// Folders of images: order, classes, and what is wrong with them.
#include <filesystem>

#include "ir/error.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/image_source.h"
#include "runtime/io/files.h"
#include "runtime/io/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;
using test::message_of;

std::span<const std::byte> file_of(const std::string& name) {
  static const TensorMap tensors =
      read_safetensors(std::string(REWIRE_GOLDENS) + "/images.safetensors").tensors;
  return tensors.at("file." + name + ".bytes").bytes();
}

class ImageTree {
 public:
  ImageTree() {
    put("train/cat/b.png", "png_rgb");
    put("train/cat/deeper/a.JPG", "jpeg_420");
    put("train/dog/c.jpeg", "jpeg_grey");
    put("val/cat/d.png", "png_alpha");
    put("val/dog/e.png", "png_palette");
  }
  void put(const std::string& path, const std::string& image) const {
    fs::create_directories((folder_.path() / path).parent_path());
    write_file_atomically(folder_.file(path), file_of(image));
  }
  void write(const std::string& path, std::string_view text) const {
    fs::create_directories((folder_.path() / path).parent_path());
    write_file_atomically(folder_.file(path), text);
  }
  std::string file(const std::string& path) const { return folder_.file(path); }
  fs::path path() const { return folder_.path(); }
  std::unique_ptr<ImageSource> open(Split split = Split::train, std::int64_t channels = 3,
                                    std::int64_t classes = 0) const {
    ir::Selection selection{"folder"};
    selection.set("path", folder_.path().string());
    return make_image_source(selection, {split, {channels, 8, 8}, classes});
  }
  std::string message(Split split = Split::train, std::int64_t channels = 3, std::int64_t classes = 0) const {
    return message_of<UserError>([&] { open(split, channels, classes); });
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_CASE("A folder a class: classes and images in the order of their names") {
  const ImageTree tree;
  tree.write("train/cat/notes.txt", "no image");
  tree.write("train/.cache/x.png", "no class");
  for (const std::int64_t channels : {1, 3}) {
    const auto train = tree.open(Split::train, channels, 2);
    CHECK(train->shape() == ir::Shape{channels, 0, 0});
    REQUIRE(train->count() == 3);
    ReadBuffer buffer;
    const std::int64_t labels[] = {0, 0, 1};
    for (std::int64_t i = 0; i < 3; ++i) {
      CHECK(train->label(i) == labels[i]);
      const StoredImage image = train->decode(i, buffer, nullptr);
      CHECK(image.height == 37);
      CHECK(image.width == 53);
      CHECK(std::ssize(image.pixels) == channels * 37 * 53);
    }
    const auto val = tree.open(Split::test, channels);
    REQUIRE(val->count() == 2);
    CHECK(val->decode(0, buffer, nullptr).height == 19);
    CHECK(val->label(1) == 1);
  }
}

TEST_CASE("Folders that are no data set are refused in one line") {
  const ImageTree tree;
  CHECK(tree.message(Split::train, 2) ==
        tree.path().string() + ": images have 1 or 3 channels, but model.channels is 2");
  CHECK(tree.message(Split::train, 3, 1) ==
        tree.file("train") +
            ": sample 2 has label 1, of labels from 0 to 1, but the model has 1 class: set model.classes=2");
  tree.put("train/eel/f.png", "png_grey");
  CHECK(tree.message() == "(nothing was thrown)");  // val may lack a class of train's
  tree.put("val/fox/f.png", "png_grey");
  for (const Split split : {Split::train, Split::test}) {
    CHECK(tree.message(split) ==
          tree.file("val/fox") + ": " + tree.file("train") +
              " has no folder of that class to train on: remove it, or rename one of them");
  }
  fs::remove_all(tree.file("val"));
  CHECK(tree.message() == "(nothing was thrown)");
  CHECK(tree.message(Split::test) == tree.file("val") + ": No such file or directory");
  fs::create_directories(tree.file("train/fox"));
  CHECK(tree.message() ==
        tree.file("train/fox") +
            ": this class has no JPEG or PNG file: remove it, or set data.allow_empty=true");
  fs::remove(tree.file("train/fox"));
  fs::create_directory_symlink("..", tree.file("train/dog/loop"));
  CHECK(tree.message().find("does a link lead back to one of them?") != std::string::npos);
  const test::TemporaryFolder empty;
  ir::Selection selection{"folder"};
  CHECK(message_of<UserError>([&] { make_image_source(selection, {Split::train, {3, 8, 8}}); }) ==
        "data.path is empty: set it to the folder of images");
}

TEST_CASE("Names are told whole, however deep they lie") {
  const ImageTree tree;
  const std::string deep = "train/cat/" + std::string(60, 'a') + "/" + std::string(60, 'b') + "/bad.png";
  tree.write(deep, "no image");
  ReadBuffer buffer;
  CHECK(message_of<UserError>([&] { tree.open()->decode(0, buffer, nullptr); }) ==
        tree.file(deep) + ": neither JPEG nor PNG");
}

TEST_CASE("Two folders of the same names, sizes and times have other fingerprints") {
  const ImageTree tree, other;
  for (const ImageTree* each : {&tree, &other}) {
    each->put("train/cat/only.png", "png_rgb");
    for (const char* split : {"train", "val"}) {
      for (const auto& entry : fs::recursive_directory_iterator(each->path() / split))
        fs::last_write_time(entry.path(), fs::file_time_type{});
    }
  }
  CHECK(tree.open()->fingerprint() != other.open()->fingerprint());
  CHECK(tree.open()->fingerprint() != tree.open(Split::test)->fingerprint());
  CHECK(tree.open()->fingerprint() == tree.open()->fingerprint());
}

TEST_CASE("An image that cannot be read, or is gone, is named with its escapes") {
  const ImageTree tree;
  tree.write("train/cat/bad\nname.png", "no image");
  tree.put("train/dog/gone.png", "png_grey");
  const auto train = tree.open();
  fs::remove(tree.file("train/dog/gone.png"));
  ReadBuffer buffer;
  CHECK(message_of<UserError>([&] { train->decode(1, buffer, nullptr); }) ==
        tree.file("train/cat/bad\\x0aname.png") + ": neither JPEG nor PNG");
  CHECK(message_of<UserError>([&] {
          train->decode(4, buffer, nullptr);
        }).starts_with("cannot read " + tree.file("train/dog/gone.png")));
}

}  // namespace
}  // namespace rewire::runtime

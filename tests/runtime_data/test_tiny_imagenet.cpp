// Tiny ImageNet as it is distributed, the default that a source has for a folder, and every fault by its line.
#include <filesystem>

#include "ir/error.h"
#include "runtime/data/catalog/sources.h"
#include "tests/runtime_data/image_tree.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;
using test::message_of;

const std::string kGoodLines = "val_0.JPEG\tn02\t0\t32\t44\t62\nval_1.JPEG\tn01\t1\t2\t3\t4.5\n";

class TinyTree : public test::ImageFileTree {
 public:
  TinyTree() {
    put("train/n02/images/n02_0.JPEG", "jpeg_444");
    put("train/n02/images/n02_1.JPEG", "png_rgb");
    write("train/n02/n02_boxes.txt", "n02_0.JPEG\t0\t0\t1\t1\n");
    put("train/n01/images/n01_0.JPEG", "jpeg_grey");
    put("val/images/val_0.JPEG", "jpeg_420");
    put("val/images/val_1.JPEG", "png_alpha");
    write("val/val_annotations.txt", kGoodLines);
    write("wnids.txt", "n02\nn01\n");
  }
  std::string message(Split split = Split::test) const {
    return message_of<UserError>([&] { open("tiny_imagenet", split); });
  }
  std::string message_with(std::string_view annotations) const {
    write("val/val_annotations.txt", annotations);
    return message();
  }
  std::string lines() const { return file("val/val_annotations.txt"); }
};

TEST_CASE("Tiny ImageNet: classes in the order of train's folders, val's by its annotations") {
  const TinyTree tree;
  const auto train = tree.open("tiny_imagenet");
  REQUIRE(train->count() == 3);
  CHECK(train->name() == tree.file("train"));
  CHECK(train->class_names() == std::vector<std::string>{"n01", "n02"});
  CHECK(train->shape() == ir::Shape{3, 0, 0});
  const std::int64_t labels[] = {0, 1, 1};
  for (std::int64_t i = 0; i < 3; ++i) CHECK(train->label(i) == labels[i]);
  CHECK(train->sample_name(2) == tree.file("train/n02/images/n02_1.JPEG"));

  const auto val = tree.open("tiny_imagenet", Split::test, 1);
  REQUIRE(val->count() == 2);
  CHECK(val->class_names() == train->class_names());
  CHECK(val->label(0) == 1);
  CHECK(val->label(1) == 0);
  CHECK(val->sample_name(1) == tree.file("val/images/val_1.JPEG"));
  ReadBuffer buffer;
  const StoredImage image = val->decode(1, buffer, nullptr);
  CHECK(image.height == 19);
  CHECK(std::ssize(image.pixels) == image.height * image.width);
}

TEST_CASE("Annotations end their lines as Windows does, or the last not at all") {
  const TinyTree tree;
  CHECK(tree.message_with("val_1.JPEG\tn01\t0\t0\t1\t1\r\nval_0.JPEG\tn02\t0\t0\t1\t1") ==
        "(nothing was thrown)");
  CHECK(tree.open("tiny_imagenet", Split::test)->sample_name(0) == tree.file("val/images/val_1.JPEG"));
}

TEST_CASE("Every fault of Tiny ImageNet's annotations is told by its line") {
  const TinyTree tree;
  const std::string at = tree.lines() + " line ";
  CHECK(tree.message_with(kGoodLines + "val_2.JPEG\tn03\t0\t0\t1\t1\n") ==
        at + "3: val_2.JPEG has the class n03, for which train has no folder");
  CHECK(tree.message_with(kGoodLines + "val_2.JPEG\tn01\t0\t0\t1\t1\n") ==
        at + "3: val_2.JPEG is not in the folder images next to it");
  CHECK(tree.message_with(kGoodLines + "val_0.JPEG\tn01\t0\t0\t1\t1\n") ==
        at + "3: val_0.JPEG is already in line 1");
  CHECK(tree.message_with("val_0.JPEG\tn02\t0\t32\t44\t62\n") ==
        tree.lines() + ": no line for " + tree.file("val/images/val_1.JPEG") +
            ": 1 of the images have none; download the files again");
  CHECK(tree.message_with("") == tree.lines() + ": it has no lines: download the file again");
  const std::string malformed = " is not a file, its class and four numbers, separated by tabs";
  for (const std::string line :
       {"", "val_0.JPEG", "val_0.JPEG\tn02\t0\t0\t1", "val_0.JPEG\tn02\t0\t0\t1\t1\t",
        "val_0.JPEG\tn02\t0\t0\t1\tx", "val_0.JPEG\tn02\t0\t0\t1\tnan", "\tn02\t0\t0\t1\t1",
        "val_0.JPEG\tn02\t0\t 0\t1\t1"}) {
    CAPTURE(line);
    const std::string message = tree.message_with(line + "\n" + kGoodLines);
    CHECK(message.starts_with(at + "1: "));
    CHECK(message.ends_with(malformed));
    CHECK(message.find('\t') == std::string::npos);
  }
}

TEST_CASE("Folders that are not laid out as Tiny ImageNet's are refused with the way out") {
  const TinyTree tree;
  fs::remove(tree.lines());
  CHECK(tree.message() == tree.file("val") + ": it has no val_annotations.txt: download the files again");
  fs::remove_all(tree.file("val/images"));
  tree.put("val/n01/a.JPEG", "jpeg_grey");
  tree.put("val/n02/b.JPEG", "jpeg_grey");
  CHECK(tree.message() ==
        tree.file("val") + ": it has a folder per class but no val_annotations.txt: set data.format=folder");
  fs::remove_all(tree.file("val"));
  CHECK(tree.message() == tree.file("val") + ": No such file or directory");
  CHECK(tree.message(Split::train) == "(nothing was thrown)");
  fs::create_directories(tree.file("train/n03"));
  CHECK(tree.message(Split::train) ==
        tree.file("train/n03") +
            ": it has no folder images: if the classes' folders hold the images, set data.format=folder");
  fs::create_directories(tree.file("train/n03/images"));
  CHECK(tree.message(Split::train) == tree.file("train/n03/images") + ": this class has no JPEG or PNG file");
  fs::remove_all(tree.file("train/n03"));
  CHECK(message_of<UserError>([&] { tree.open("tiny_imagenet", Split::train, 4); }) ==
        tree.path() + ": images have 1 or 3 channels, but model.channels is 4");
  fs::remove_all(tree.file("train"));
  fs::create_directory(tree.file("train"));
  CHECK(tree.message(Split::train) == tree.file("train") + ": it has no folders; each class needs one");
}

TEST_CASE("Files that vanish, loops of links and names with line feeds are named in one line") {
  const TinyTree tree;
  tree.put("train/n01/images/new\nline.JPEG", "jpeg_grey");
  fs::create_symlink("loop.JPEG", tree.file("train/n01/images/loop.JPEG"));
  const auto train = tree.open("tiny_imagenet");
  CHECK(train->sample_name(2) == tree.file("train/n01/images/new\\x0aline.JPEG"));
  ReadBuffer buffer;
  const std::string loop = tree.file("train/n01/images/loop.JPEG");
  CHECK(message_of<UserError>([&] { train->decode(0, buffer, nullptr); }) ==
        "cannot read " + loop + ": Too many levels of symbolic links");
  CHECK(message_of<UserError>([&] { static_cast<void>(train->fingerprint()); }) ==
        "cannot read " + loop + ": Too many levels of symbolic links");
  fs::remove(tree.file("train/n01/images/n01_0.JPEG"));
  CHECK(message_of<UserError>([&] { train->decode(1, buffer, nullptr); }) ==
        "cannot read " + tree.file("train/n01/images/n01_0.JPEG") + ": No such file or directory");
  fs::remove_all(tree.file("train/n02/images"));
  fs::create_symlink("images", tree.file("train/n02/images"));
  CHECK(tree.message(Split::train).starts_with(tree.file("train/n02") + ": it has no folder images"));
}

TEST_CASE("A fingerprint changes with names, sizes, times and channels of the files, and with nothing else") {
  const TinyTree tree;
  const std::string first = tree.open("tiny_imagenet")->fingerprint();
  CHECK(first.size() == 64);
  CHECK(tree.open("tiny_imagenet")->fingerprint() == first);
  CHECK(tree.open("tiny_imagenet", Split::train, 1)->fingerprint() != first);
  const fs::path moved = tree.file("train/n01/images/n01_0.JPEG");
  const auto time = fs::last_write_time(moved);
  fs::last_write_time(moved, time + std::chrono::nanoseconds(1));
  CHECK(tree.open("tiny_imagenet")->fingerprint() != first);
  fs::last_write_time(moved, time);
  CHECK(tree.open("tiny_imagenet")->fingerprint() != first);  // the time of that change remains
  fs::rename(moved, tree.file("train/n01/images/n01_2.JPEG"));
  CHECK(tree.open("tiny_imagenet")->fingerprint() != first);
}

TEST_CASE("Each layout on a disk is told by its names, and by one row alone") {
  const auto found = [](const std::string& path) {
    std::vector<std::string> names;
    for (const SourceRow* row : sources()) {
      if (row->is_at != nullptr && row->is_at(path)) names.emplace_back(row->name);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  const TinyTree tiny;
  CHECK(found(tiny.path()) == Names{"tiny_imagenet"});
  CHECK(found(tiny.file("nowhere")).empty());
  CHECK(found(tiny.file("wnids.txt")) == Names{"text"});
  const test::ImageFileTree folder, shards, arrays, idx, ten, hundred, flat;
  folder.put("train/cat/a.png", "png_grey");
  CHECK(found(folder.path()) == Names{"folder"});
  flat.put("train/a.png", "png_grey");
  CHECK(found(flat.path()).empty());
  shards.write("my-train-0.tar", "x");
  CHECK(found(shards.path()) == Names{"shards"});
  arrays.write("train_images.npy", "x");
  CHECK(found(arrays.path()) == Names{"npy"});
  idx.write("train-images-idx3-ubyte.gz", "x");
  CHECK(found(idx.path()) == Names{"idx"});
  ten.write("data_batch_1.bin", "x");
  CHECK(found(ten.path()) == Names{"cifar"});
  hundred.write("train.bin", "x");
  CHECK(found(hundred.path()).empty());
  hundred.write("test.bin", "x");
  CHECK(found(hundred.path()) == Names{"cifar"});
}

TEST_CASE("CIFAR's classes have the names of the text beside the records, where it names all of them") {
  const test::ImageFileTree ten, hundred;
  ten.write("data_batch_1.bin", std::string(3073, '\1'));
  for (const char batch : std::string("2345"))
    ten.write(std::string("data_batch_") + batch + ".bin", std::string(3073, '\2'));
  CHECK(ten.open("cifar")->class_names().empty());
  ten.write("batches.meta.txt", "airplane\nautomobile\nbird\n");
  CHECK(ten.open("cifar")->class_names().empty());
  ten.write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  CHECK(ten.open("cifar")->class_names().at(9) == "j");
  hundred.write("train.bin", std::string(3074, '\3'));
  std::string twenty;
  for (int i = 0; i < 20; ++i) twenty += "coarse" + std::to_string(i) + "\r\n";
  hundred.write("coarse_label_names.txt", twenty);
  CHECK(hundred.open("cifar")->class_names().empty());
  CHECK(hundred.open("cifar", Split::train, 3, {{"labels", std::string("coarse")}})->class_names().at(19) ==
        "coarse19");
}

}  // namespace
}  // namespace rewire::runtime

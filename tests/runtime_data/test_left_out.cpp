// Folders of images: which classes they have, what is taken for an image, and what is said of the rest.
#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>

#include "ir/error.h"
#include "runtime/data/catalog/data_info.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/data/vision/subset.h"
#include "tests/runtime_data/image_tree.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using Lines = std::vector<std::string>;

/// Classes "2" and "10", an image each.
class TwoClasses : public test::ImageFileTree {
 public:
  TwoClasses() {
    for (const char* name : {"train/2/a.png", "train/10/b.jpg", "val/2/c.png", "val/10/d.png"})
      put(name, "png_grey");
  }
  std::unique_ptr<ImageSource> folder(
      Split split = Split::train,
      const std::vector<std::pair<std::string, ir::Attribute>>& values = {}) const {
    return open("folder", split, 3, values);
  }
  std::string message(Split split = Split::train,
                      const std::vector<std::pair<std::string, ir::Attribute>>& values = {}) const {
    return message_of<UserError>([&] { folder(split, values); });
  }
};

TEST_CASE("Every name of a JPEG or PNG is taken, and a name without a suffix by how the file begins") {
  const TwoClasses tree;
  for (const char* name : {"a.jfif", "b.jpe", "c.JFIF", "ILSVRC2012_val_1", "photo.5x"})
    tree.put(std::string("train/2/more/") + name, "jpeg_420");
  tree.write("train/2/more/README", "no image");
  const auto source = tree.folder();
  CHECK(source->count() == 7);
  CHECK(source->notes().left_out.empty());
  ReadBuffer buffer;
  for (std::int64_t i = 0; i < source->count(); ++i) CHECK(source->decode(i, buffer, nullptr).height == 37);
}

TEST_CASE("What looks like an image and is not taken is counted by kind, in one line") {
  const TwoClasses tree;
  for (const char* name : {"a.jp2", "b.avif", "c.heic", "d.WebP", "e.webp", "._a.jpg", ".b.png", "notes.txt"})
    tree.write(std::string("train/2/") + name, "x");
  tree.write("train/2/.ipynb_checkpoints/a.png", "x");
  const auto source = tree.folder();
  CHECK(source->count() == 2);
  CHECK(source->notes().left_out ==
        Lines{"files that look like images but are left out: 1 .avif, 1 .heic, 1 .jp2, 2 .webp, 2 hidden, 1 "
              "hidden folder; only JPEG and PNG files are read"});
  CHECK(tree.folder(Split::test)->notes().left_out.empty());
  fs::remove(tree.file("train/2/a.png"));
  CHECK(tree.message() == tree.file("train/2") +
                              ": this class has no JPEG or PNG file, but 1 .avif, 1 .heic, 1 .jp2, 2 .webp, "
                              "2 hidden, 1 hidden folder: remove it, or set data.allow_empty=true");
}

TEST_CASE("Folders that are no classes, and classes without an image, are named") {
  const TwoClasses tree;
  tree.put("train/__MACOSX/2/a.png", "png_grey");
  tree.put("train/.cache/a.png", "png_grey");
  CHECK(tree.folder()->class_names() == Lines{"10", "2"});
  CHECK(tree.folder()->notes().left_out == Lines{"folders that are not classes: 2 (.cache, __MACOSX)"});
  fs::create_directories(tree.file("train/empty"));
  CHECK(tree.message() ==
        tree.file("train/empty") +
            ": this class has no JPEG or PNG file: remove it, or set data.allow_empty=true");
  const auto source = tree.folder(Split::train, {{"allow_empty", true}});
  CHECK(source->class_names() == Lines{"10", "2", "empty"});
  CHECK(source->count() == 2);
  CHECK(source->notes().left_out.at(1) == "classes without an image: 1 (empty)");
}

TEST_CASE("A split for evaluation has the labels of training's classes, some of which it may lack") {
  const TwoClasses tree;
  tree.put("train/1/x.png", "png_grey");
  const auto val = tree.folder(Split::test);
  CHECK(val->class_names() == Lines{"1", "10", "2"});
  REQUIRE(val->count() == 2);
  CHECK(val->label(0) == 1);
  CHECK(val->label(1) == 2);
  CHECK(val->notes().left_out == Lines{"classes of training without a folder here: 1 (1)"});
  tree.put("val/other/x.png", "png_grey");
  CHECK(tree.message(Split::test) ==
        tree.file("val/other") + ": " + tree.file("train") +
            " has no folder of that class to train on: remove it, or rename one of them");
  // Where there is nothing to train on, the split has its own classes.
  fs::remove_all(tree.file("train"));
  CHECK(tree.folder(Split::test)->class_names() == Lines{"10", "2", "other"});
}

TEST_CASE("Classes count by their names, or by the numbers in them") {
  const test::ImageFileTree tree;
  for (const char* name :
       {"10", "9", "09", "a10", "a9", "a9b", "b", "a", "100000000000000000000", "a10b2", "a10b11"})
    tree.put(std::string("train/") + name + "/x.png", "png_grey");
  const auto names = [&](const std::string& order) {
    return tree.open("folder", Split::train, 3, {{"class_order", order}})->class_names();
  };
  CHECK(names("name") ==
        Lines{"09", "10", "100000000000000000000", "9", "a", "a10", "a10b11", "a10b2", "a9", "a9b", "b"});
  CHECK(names("natural") ==
        Lines{"09", "9", "10", "100000000000000000000", "a", "a9", "a9b", "a10", "a10b2", "a10b11", "b"});
}

/// Two folders and class maps over them.
class Mapped : public TwoClasses {
 public:
  using Values = std::vector<std::pair<std::string, ir::Attribute>>;
  Values by(const std::string& lines) const {
    write("map.txt", lines);
    return {{"class_map", file("map.txt")}};
  }
  Lines labelled(const std::string& lines, Split split = Split::train) const {
    const auto source = folder(split, by(lines));
    Lines list;
    for (std::int64_t i = 0; i < source->count(); ++i) {
      list.push_back(fmt::format("{} {}", fs::path(source->sample_name(i)).parent_path().filename().string(),
                                 source->label(i)));
    }
    return list;
  }
};

TEST_CASE("A class map gives folders their classes by name, several of them one, or by label") {
  const Mapped tree;
  tree.put("train/3/e.png", "png_grey");
  CHECK(tree.labelled("10\towl\n2\tant\n3\towl\n") == Lines{"10 1", "2 0", "3 1"});
  CHECK(tree.folder(Split::train, tree.by("10\towl\r\n\r\n2\tant\r\n3\towl\r\n"))->class_names() ==
        Lines{"ant", "owl"});
  CHECK(tree.labelled("10\t7\n2\t0\n3\t7\n") == Lines{"10 7", "2 0", "3 7"});
  CHECK(tree.folder(Split::train, tree.by("10\t7\n2\t0\n3\t7\n"))->class_names().empty());
  // A split may lack folders of the map, and classes of it: their labels stay.
  const auto test = tree.folder(Split::test, tree.by("10\tb\n2\ta\n3\td\nmore\tc\n"));
  CHECK(test->class_names() == Lines{"a", "b", "c", "d"});
  CHECK(test->label(0) == 1);
  CHECK(test->notes().left_out == Lines{"folders of data.class_map that are missing here: 2 (3, more)"});
  tree.put("val/more/x.png", "png_grey");  // no class of training, but of the map
  CHECK(tree.labelled("10\tb\n2\ta\n3\td\nmore\tc\n", Split::test) == Lines{"10 1", "2 0", "more 2"});
}

TEST_CASE("What is wrong in a class map is refused with its line, and a folder that it lacks by name") {
  const Mapped tree;
  const std::string map = tree.file("map.txt");
  const auto refused = [&](const std::string& lines) { return tree.message(Split::train, tree.by(lines)); };
  CHECK(refused("2\ta\n") ==
        tree.file("train/10") + ": " + map + " has no line for this folder: add one, or remove the folder");
  for (const char* form : {"2 a", "\ta", "2\t", "2\ta\tb"}) {
    CHECK_THAT(refused(std::string("10\tb\n") + form + "\n"),
               REWIRE_CATCH_CONTAINS(map + " line 2: ") &&
                   REWIRE_CATCH_CONTAINS(" is not a folder, a tab, and the name or label of its class"));
  }
  CHECK(refused("2\ta\n\n2\tb\n") == map + " line 3: '2' already has a class from line 1");
  CHECK(refused("2\t0\n10\tb\n") ==
        map + " line 2: 'b' is a name, but line 1 has a label: use only names, or only labels");
  CHECK(refused("2\ta\n10\t1\n") ==
        map + " line 2: '1' is a label, but line 1 has a name: use only names, or only labels");
  CHECK(refused("\n") == map + ": it has no lines");
  for (const char* label : {"-1", "1000000", "9223372036854775808", "+3"}) {
    CHECK(refused(std::string("2\t") + label + "\n10\t0\n") ==
          map + " line 1: " + label + " is not a label: it must be from 0 to 999999");
  }
  CHECK_THAT(
      message_of<UserError>([&] { tree.open("folder", Split::train, 3, tree.by("2\t0\n10\t5\n"), 3); }),
      REWIRE_CATCH_CONTAINS("has label 5"));
}

TEST_CASE(
    "With a class map a class may be several folders, an empty one among them, and classes may count "
    "naturally") {
  const Mapped tree;
  fs::create_directory(tree.file("train/3"));
  CHECK_THAT(tree.message(Split::train, tree.by("10\tk10\n2\tk2\n3\tk3\n")),
             REWIRE_CATCH_CONTAINS(tree.file("train/3") + ": this class has no JPEG or PNG file: "));
  auto values = tree.by(
      "\xEF\xBB\xBF"
      "10\tk10\n2\tk2\n3\tk2\n");
  const auto source = tree.folder(Split::train, values);
  CHECK(source->class_names() == Lines{"k10", "k2"});
  CHECK(source->notes().left_out == Lines{"folders without an image: 1 (3)"});
  values.emplace_back("class_order", std::string("natural"));
  CHECK(tree.folder(Split::train, values)->class_names() == Lines{"k2", "k10"});
  CHECK(tree.folder(Split::train, values)->label(0) == 1);  // of the folder 10
}

TEST_CASE("Where a split is not there, the folders that are there are named") {
  const TwoClasses tree;
  fs::rename(tree.file("val"), tree.file("test"));
  CHECK(tree.message(Split::test) ==
        tree.file("val") +
            ": No such file or directory; set data.test_split to one of the existing folders: test");
  CHECK(tree.folder(Split::test, {{"test_split", std::string("test")}})->count() == 2);
  fs::rename(tree.file("train"), tree.file("Training"));
  CHECK_THAT(tree.message(),
             REWIRE_CATCH_CONTAINS("set data.train_split to one of the existing folders: Training"));
}

TEST_CASE("Links are followed, and counted where they lead out of the data") {
  const TwoClasses tree;
  const test::ImageFileTree elsewhere;
  elsewhere.put("a.png", "png_grey");
  elsewhere.put("deep/b.png", "png_grey");
  fs::create_symlink(elsewhere.file("a.png"), tree.file("train/2/out.png"));
  fs::create_directory_symlink(elsewhere.file("deep"), tree.file("train/2/folder"));
  fs::create_symlink("../10/b.jpg", tree.file("train/2/within.jpg"));
  const auto source = tree.folder();
  CHECK(source->count() == 5);
  CHECK(source->notes().links_out == 2);
  const DataInfo info = examine_data(ir::Selection{"folder"}.set("path", tree.path()), {});
  CHECK(info.splits.at(0).notes.links_out == 2);
  CHECK(info.splits.at(1).notes.links_out == 0);
}

TEST_CASE("A pipe, and a file larger than an image may be, are named when they are read") {
  const TwoClasses tree;
  REQUIRE(::mkfifo(tree.file("train/10/a.jpg").c_str(), 0600) == 0);
  REQUIRE(::mkfifo(tree.file("train/10/no_suffix").c_str(), 0600) == 0);
  tree.write("train/2/b.jpg", "x");
  fs::resize_file(tree.file("train/2/b.jpg"), std::uintmax_t{8} << 30);  // sparse
  const auto source = tree.folder();
  REQUIRE(source->count() == 4);
  ReadBuffer buffer;
  const auto message = [&](std::int64_t image) {
    return message_of<UserError>([&] { source->decode(image, buffer, nullptr); });
  };
  CHECK(message(0) ==
        "cannot read " + tree.file("train/10/a.jpg") + ": it is a pipe or a device, not a file");
  CHECK(message(3) == "cannot read " + tree.file("train/2/b.jpg") + ": it is larger than 1073741824 bytes");
  CHECK(buffer.file.capacity() == 0);
  REQUIRE(::mkfifo(tree.file("list").c_str(), 0600) == 0);
  CHECK(message_of<UserError>([&] { listed_images(*source, tree.file("list")); }) ==
        "cannot read " + tree.file("list") + ": it is a pipe or a device, not a file");
}

TEST_CASE("Pipes are no files of the other formats either") {
  const test::TemporaryFolder folder;
  const auto message = [&](const std::string& format) {
    return message_of<UserError>([&] {
      make_image_source(ir::Selection{format}.set("path", folder.path().string()),
                        {Split::train, {1, 8, 8}, 0});
    });
  };
  for (const auto& [format, name] : std::vector<std::pair<std::string, std::string>>{
           {"idx", "train-images-idx3-ubyte"}, {"cifar", "data_batch_1.bin"}, {"npy", "train_labels.npy"}}) {
    REQUIRE(::mkfifo(folder.file(name).c_str(), 0600) == 0);
    CHECK(message(format) == "cannot read " + folder.file(name) + ": it is a pipe or a device, not a file");
  }
}

}  // namespace
}  // namespace rewire::runtime

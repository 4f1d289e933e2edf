// Packing a folder of images: the shards hold the files' bytes, are the same each time, and read as the folder does.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "ir/error.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/pack.h"
#include "runtime/data/vision/tar_file.h"
#include "runtime/data/vision/tar_index.h"
#include "tests/runtime_data/image_tree.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;
using test::message_of;

class PackTree : public test::ImageFileTree {
 public:
  PackTree() {
    int number = 0;
    for (const char* image :
         {"jpeg_420", "jpeg_grey", "png_alpha", "png_palette", "jpeg_one_pixel", "png_rgb", "jpeg_444"}) {
      const std::string name = "class " + std::to_string(number % 3) + "/" + std::to_string(number) +
                               (image[0] == 'j' ? ".JPEG" : ".png");
      put("train/" + name, image);
      if (number < 3) put("val/" + name, image);
      ++number;
    }
  }
  PackOptions options(std::uint64_t shard_bytes = 1'000'000, std::uint64_t seed = 0) const {
    PackOptions all;
    all.folder = path();
    all.output = out_.file("shards");
    all.shard_bytes = shard_bytes;
    all.seed = seed;
    return all;
  }
  std::string output(const std::string& name) const { return out_.file("shards/" + name); }
  void clear() const { fs::remove_all(out_.file("shards")); }
  const test::TemporaryFolder& out() const { return out_; }

 private:
  test::TemporaryFolder out_;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// All that a folder holds, by name.
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = text_of(read_file(entry.path().string()));
  return files;
}

TEST_CASE("Shards hold each image's file as it is, with its label, training's in a random order") {
  const PackTree tree;
  std::vector<std::string> told;
  const auto shards =
      pack_images(tree.options(), [&](const PackedShard& shard) { told.push_back(shard.path); });
  REQUIRE(shards.size() == 2);
  CHECK(told == std::vector<std::string>{tree.output("train-000000.tar"), tree.output("val-000000.tar")});
  CHECK(shards[0].images == 7);
  CHECK(shards[1].images == 3);
  for (const PackedShard& shard : shards) {
    CHECK(shard.bytes == fs::file_size(shard.path));
    CHECK(shard.bytes % 10240 == 0);
  }
  CHECK(contents(tree.output("")).at("classes.txt") == "class 0\nclass 1\nclass 2\n");

  for (const bool is_train : {true, false}) {
    const auto files = tree.open("folder", is_train ? Split::train : Split::test);
    const PackedShard& shard = shards[is_train ? 0 : 1];
    const ShardIndex index = index_shard(shard.path);
    const std::string bytes = text_of(read_file(shard.path));
    const auto order = epoch_order(files->count(), 0, 0);
    REQUIRE(std::ssize(index.images) == files->count());
    for (std::size_t i = 0; i < index.images.size(); ++i) {
      const std::int64_t from = is_train ? order[i] : static_cast<std::int64_t>(i);
      CHECK(index.images[i].label == files->label(from));
      CHECK(bytes.substr(index.images[i].offset, index.images[i].size) ==
            text_of(read_file(files->sample_name(from))));
      const std::string ending = files->sample_name(from).ends_with(".JPEG") ? ".jpeg" : ".png";
      CHECK(index.name(i) == "00000000" + std::to_string(i) + ending);
    }
  }
}

TEST_CASE("What was packed reads as the folder it was made of") {
  const PackTree tree;
  pack_images(tree.options());
  ir::Selection selection{"shards"};
  selection.set("path", tree.output(""));
  const auto shards = make_image_source(selection, {Split::test, {3, 8, 8}, 3});
  const auto files = tree.open("folder", Split::test);
  CHECK(shards->class_names() == files->class_names());
  REQUIRE(shards->count() == files->count());
  ReadBuffer one, other;
  for (std::int64_t i = 0; i < files->count(); ++i) {
    const StoredImage packed = shards->decode(i, one, nullptr), image = files->decode(i, other, nullptr);
    CHECK(packed.height == image.height);
    CHECK(std::ranges::equal(packed.pixels, image.pixels));
    CHECK(shards->label(i) == files->label(i));
  }
}

TEST_CASE("The same images and seed give the same bytes, whatever the files' times are") {
  const PackTree tree;
  pack_images(tree.options(2000, 5));
  const auto first = contents(tree.output(""));
  CHECK(first.size() > 4);
  tree.clear();
  const fs::path touched = tree.file("train/class 0/0.JPEG");
  fs::last_write_time(touched, fs::last_write_time(touched) - std::chrono::hours(1));
  fs::permissions(touched, fs::perms::owner_read);
  pack_images(tree.options(2000, 5));
  CHECK(contents(tree.output("")) == first);
  tree.clear();
  pack_images(tree.options(2000, 6));
  CHECK(contents(tree.output("")) != first);
  const std::string& shard = first.at("train-000000.tar");
  CHECK(shard.substr(100, 24) == std::string("0000644\0000000000\0000000000\0", 24));
  CHECK(shard.substr(136, 11) == "00000000000");
  CHECK(shard.substr(257, 8) == std::string("ustar\00000", 8));
}

TEST_CASE("A shard ends before the image that would make it too large, and holds one at least") {
  const PackTree tree;
  for (const std::uint64_t most : {1, 3000, 9000}) {
    CAPTURE(most);
    const auto shards = pack_images(tree.options(most));
    std::set<std::string> names;
    std::int64_t images = 0;
    for (const PackedShard& shard : shards) {
      const ShardIndex index = index_shard(shard.path);
      CHECK(std::ssize(index.images) == shard.images);
      const ShardImage& last = index.images.back();
      const std::uint64_t end =
          last.offset - 512 + TarFile::size_of_entry(last.size) + TarFile::size_of_entry(1);
      if (shard.images > 1) CHECK(end <= most);
      for (std::size_t i = 0; i < index.images.size(); ++i)
        names.insert(shard.path.substr(tree.output("").size(), 3) + std::string(index.name(i)));
      images += shard.images;
    }
    CHECK(images == 10);
    CHECK(names.size() == 10);
    if (most == 1) CHECK(shards.size() == 10);
    tree.clear();
  }
}

TEST_CASE(
    "Tiny ImageNet is packed in the order of its annotations; a folder need not have images for evaluation") {
  const test::ImageFileTree tiny;
  tiny.put("train/n1/images/a.JPEG", "jpeg_444");
  tiny.put("val/images/v0.JPEG", "jpeg_grey");
  tiny.put("val/images/v1.JPEG", "png_rgb");
  tiny.write("val/val_annotations.txt", "v1.JPEG\tn1\t0\t0\t1\t1\nv0.JPEG\tn1\t0\t0\t1\t1\n");
  const PackTree tree;
  PackOptions options = tree.options();
  options.folder = tiny.path();
  options.format = "tiny_imagenet";
  REQUIRE(pack_images(options).size() == 2);
  const ShardIndex val = index_shard(tree.output("val-000000.tar"));
  CHECK(val.images.at(0).size == test::golden_image("png_rgb").size());
  tree.clear();
  fs::remove_all(tree.file("val"));
  REQUIRE(pack_images(tree.options()).size() == 1);
  CHECK(contents(tree.output("")).size() == 2);
}

TEST_CASE("Nothing is packed but images, and none that lies out of the folder") {
  const PackTree tree;
  const auto message = [&] { return message_of<UserError>([&] { pack_images(tree.options()); }); };
  tree.write("train/class 0/secret.png", "-----BEGIN PRIVATE KEY-----");
  CHECK(message() == tree.file("train/class 0/secret.png") + ": neither JPEG nor PNG");
  fs::remove(tree.file("train/class 0/secret.png"));
  const test::TemporaryFolder elsewhere;
  write_file_atomically(elsewhere.file("a.png"), test::golden_image("png_rgb"));
  const std::string end = ": it leads out of " + tree.path() + ": copy the file there, or remove the link";
  fs::create_symlink(elsewhere.file("a.png"), tree.file("train/class 0/link.png"));
  CHECK(message() == tree.file("train/class 0/link.png") + end);
  fs::remove(tree.file("train/class 0/link.png"));
  fs::create_directory_symlink(elsewhere.path(), tree.file("train/class 0/link"));
  CHECK(message() == tree.file("train/class 0/link/a.png") + end);
  fs::remove(tree.file("train/class 0/link"));
  REQUIRE(::mkfifo(tree.file("train/class 0/pipe.png").c_str(), 0600) == 0);
  CHECK(message() ==
        "cannot read " + tree.file("train/class 0/pipe.png") + ": it is a pipe or a device, not a file");
  fs::remove(tree.file("train/class 0/pipe.png"));
  CHECK(tree.out().entries() == 0);
  // A link within the folder is a file of it.
  fs::create_symlink("1.JPEG", tree.file("train/class 1/again"));
  CHECK(message() == "(nothing was thrown)");
  CHECK(index_shard(tree.output("train-000000.tar")).images.size() == 8);
}

TEST_CASE("Packing that cannot be done leaves nothing, and says why") {
  const PackTree tree;
  const auto message = [&](const PackOptions& options) {
    return message_of<UserError>([&] { pack_images(options); });
  };
  PackOptions bad = tree.options();
  bad.format = "idx";
  CHECK(message(bad) == "--format idx: it takes folder or tiny_imagenet");
  bad = tree.options();
  bad.folder = tree.file("nowhere");
  CHECK(message(bad) == tree.file("nowhere/train") + ": No such file or directory");
  CHECK(tree.out().entries() == 0);
  // The shard that is whole goes too.
  tree.write("val/class 0/empty.png", "");
  CHECK(message(tree.options()) ==
        tree.file("val/class 0/empty.png") + ": the file is empty: remove it from the folder");
  CHECK(tree.out().entries() == 0);
  fs::remove(tree.file("val/class 0/empty.png"));
  fs::create_symlink("gone", tree.file("train/class 1/link.png"));
  CHECK(message(tree.options()) ==
        "cannot read " + tree.file("train/class 1/link.png") + ": No such file or directory");
  CHECK(tree.out().entries() == 0);
  fs::remove(tree.file("train/class 1/link.png"));
  for (const char* split : {"train", "val"}) tree.put(std::string(split) + "/new\nline/a.png", "png_grey");
  CHECK(message(tree.options()) ==
        "the class new\\x0aline has a line feed in its name, but classes.txt has one name per line");
  for (const char* split : {"train", "val"}) fs::remove_all(tree.file(std::string(split) + "/new\nline"));
  CHECK(message(tree.options()) == "(nothing was thrown)");
  const auto before = contents(tree.output(""));
  CHECK(message(tree.options()) == tree.output("").substr(0, tree.output("").size() - 1) +
                                       ": it exists and is not an empty folder: choose another --output");
  CHECK(contents(tree.output("")) == before);
}

}  // namespace
}  // namespace rewire::runtime

// Shards: which samples they hold, where their bytes stand, the order of an epoch, and every fault by its name.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>

#include "ir/error.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/data/vision/tar_index.h"
#include "tests/runtime_data/idx_files.h"
#include "tests/runtime_data/image_tree.h"
#include "tests/runtime_data/tar_text.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::tar_end;
using test::tar_entry;
using test::tar_sample;

std::string golden_text(const std::string& name) {
  const auto bytes = test::golden_image(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Of `text` as the one shard for training.
class OneShard : public test::ImageFileTree {
 public:
  std::string shard() const { return file("a-train-0.tar"); }
  std::string message(std::string_view text) const {
    write("a-train-0.tar", text);
    return message_of<UserError>([&] { open("shards"); });
  }
  std::string after_name(std::string_view text) const {
    const std::string all = message(text), begin = shard() + ": ";
    return all.starts_with(begin) ? all.substr(begin.size()) : all;
  }
};

void check_pixels(const ImageSource& source, std::int64_t index, const std::string& golden) {
  CAPTURE(index, golden);
  std::vector<std::uint8_t> wanted;
  const ImageSize size = decode_image(test::golden_image(golden), golden, 3, wanted);
  ReadBuffer buffer;
  buffer.file.assign(7, std::byte{0xee});
  buffer.pixels.assign(100'000, 0xee);
  const StoredImage image = source.decode(index, buffer, nullptr);
  CHECK(image.height == size.height);
  CHECK(image.width == size.width);
  CHECK(std::ranges::equal(image.pixels, wanted));
}

TEST_CASE(
    "Shards: the samples of all that match, in the order of their names, with the pixels of their files") {
  const test::ImageFileTree tree;
  const std::string json = "{\"caption\": \"none\"}";
  tree.write("b-train-1.tar", tar_entry("deep/", "", '5') + tar_entry("deep/er/b.cls", "4\n") +
                                  tar_entry("deep/er/b.png", golden_text("png_rgb")) +
                                  tar_entry("deep/er/b.json", json) +
                                  tar_entry("deep/er/b.seg.png", "of another kind") +
                                  tar_entry("deep/c.JPEG", golden_text("jpeg_420")) +
                                  tar_entry("deep/c.cls", "11") + tar_end());
  tree.write("a-train-0.tar", tar_sample("x", golden_text("jpeg_grey"), "0\r\n") +
                                  tar_entry("README", "no sample") + tar_entry(".hidden.jpg", "no sample") +
                                  tar_entry("only.txt", "no image") + tar_end());
  tree.write("c-val-0.tar", tar_sample("x", golden_text("jpeg_444"), "2") + tar_end());
  tree.write("other.tar", "not looked at");
  tree.write("classes.txt", "zero\none\r\ntwo");

  const auto train = tree.open("shards", Split::train, 3, {}, 12);
  CHECK(train->name() == tree.path());
  CHECK(train->shape() == ir::Shape{3, 0, 0});
  CHECK(train->class_names() == std::vector<std::string>{"zero", "one", "two"});
  REQUIRE(train->count() == 3);
  const std::int64_t labels[] = {0, 4, 11};
  for (std::int64_t i = 0; i < 3; ++i) CHECK(train->label(i) == labels[i]);
  check_pixels(*train, 0, "jpeg_grey");
  check_pixels(*train, 1, "png_rgb");
  check_pixels(*train, 2, "jpeg_420");
  CHECK(train->sample_name(0) == tree.file("a-train-0.tar/x.jpg"));
  CHECK(train->sample_name(1) == tree.file("b-train-1.tar/deep/er/b.png"));
  CHECK(train->sample_name(2) == tree.file("b-train-1.tar/deep/c.JPEG"));
  const auto val = tree.open("shards", Split::test);
  REQUIRE(val->count() == 1);
  check_pixels(*val, 0, "jpeg_444");
  CHECK(tree.open("shards", Split::train, 3,
                  {{"train_shards", std::string("[bc]-*.tar")}, {"test_shards", std::string("no")}})
            ->count() == 3);
}

TEST_CASE("An image's bytes are found behind every kind of header") {
  const std::string long_name = std::string(300, 'n') + "/" + std::string(2000, 'k');
  const OneShard tree;
  tree.write("a-train-0.tar",
             test::tar_pax("comment", std::string(3000, 'c'), 'g') +
                 test::tar_pax("path", long_name + ".jpg") + tar_entry("cut", golden_text("jpeg_420")) +
                 test::tar_pax("path", long_name + ".cls") + tar_entry("cut", "1") +
                 tar_entry("././@LongLink", long_name + "2.png", 'L') +
                 tar_entry("cut", golden_text("png_alpha")) +
                 tar_entry("././@LongLink", long_name + "2.cls", 'L') + tar_entry("cut", "2") +
                 test::tar_pax("path", "\xc3\xa4.png") + tar_entry("cut", golden_text("png_grey")) +
                 test::tar_pax("path", "\xc3\xa4.cls") + tar_entry("cut", "3") + tar_end());
  const auto source = tree.open("shards");
  REQUIRE(source->count() == 3);
  check_pixels(*source, 0, "jpeg_420");
  check_pixels(*source, 1, "png_alpha");
  check_pixels(*source, 2, "png_grey");
  CHECK(source->sample_name(0) == tree.shard() + "/" + long_name + ".jpg");
  CHECK(source->sample_name(2) == tree.shard() + "/\xc3\xa4.png");
  CHECK(source->label(2) == 3);
}

TEST_CASE("A shard that is no whole set of samples is refused with its name and the sample's") {
  const OneShard tree;
  const auto bad = [&](const std::string& text) { return tree.after_name(text + tar_end()); };
  CHECK(bad(tar_entry("k.jpg", "x")) ==
        "k: an image without a .cls next to it (do a sample's entries follow each other?)");
  CHECK(bad(tar_entry("k.cls", "1")) ==
        "k: a .cls without an image next to it (do a sample's entries follow each other?)");
  CHECK(bad(tar_sample("k", "x", "one")) == "k: its .cls is 'one', not the number of a class");
  CHECK(bad(tar_sample("k", "x", "-1")) == "k: its .cls is '-1', not the number of a class");
  CHECK(bad(tar_sample("k", "x", "1.5")) == "k: its .cls is '1.5', not the number of a class");
  CHECK(bad(tar_sample("k", "x", "\n")) == "k: its .cls is '\\x0a', not the number of a class");
  CHECK(bad(tar_sample("k", "x", "2147483648")) == "k: its .cls is '2147483648', not the number of a class");
  CHECK(bad(tar_sample("k", "x", std::string(65, '1'))) == "k: its .cls has 65 bytes, too many for a number");
  CHECK(bad(tar_entry("k.jpg", "x") + tar_entry("k.PNG", "x") + tar_entry("k.cls", "1")) == "k: two images");
  CHECK(bad(tar_sample("k", "x", "1") + tar_entry("k.cls", "1")) == "k: two .cls");
  CHECK(bad(tar_entry("k.jpg", "x") + tar_sample("l", "x", "1") + tar_entry("k.cls", "1")) ==
        "k: an image without a .cls next to it (do a sample's entries follow each other?)");
  CHECK(bad(tar_sample("k", "x", "1") + tar_sample("l", "x", "1") + tar_entry("k.json", "{}")) ==
        "k: its entries do not follow each other in the shard");
  CHECK(bad(tar_sample("k", "", "1")) == "k: its .jpg is empty");
  CHECK(bad(tar_sample("k", "x", "")) == "k: its .cls is empty");
  CHECK(bad(test::tar_header("k.jpg", 0, '2', "elsewhere")) == "k: its .jpg is not a regular file");
  CHECK(bad(tar_sample("k", "x", "1") + test::tar_header("l.jpg", 0, '1', "k.jpg")) ==
        "l: its .jpg is not a regular file");
  CHECK(bad(test::tar_pax("GNU.sparse.map", "0,1,700,1") + tar_sample("k", "xy", "1")) ==
        "k: its .jpg is sparse");
  CHECK(bad(tar_entry("README", "text")) ==
        "it holds no images: KEY.jpg, KEY.jpeg or KEY.png, where KEY ends at the first dot of a name");
  CHECK(tree.after_name("") == "it is empty: download the shard again");
  CHECK(bad(tar_sample("line\nfeed\x1b[2J", "x", "no")) ==
        "line\\x0afeed\\x1b[2J: its .cls is 'no', not the number of a class");
  const std::string packed =
      "it is compressed, but images are read from the middle of a shard: unpack it to a plain tar file";
  CHECK(tree.after_name(test::gzip(tar_sample("k", "x", "1") + tar_end())) == packed);
  CHECK(tree.after_name("BZh91AY&SY\x01") == packed);
  CHECK(tree.after_name("BZh").starts_with("not a complete tar file: "));
  CHECK(tree.after_name("\xfd"
                        "7zXZ\n") == packed);
  CHECK(tree.after_name("\x28\xb5\x2f\xfd\x01\x02") == packed);
  CHECK(tree.after_name("no tar file at all").starts_with("not a complete tar file: "));
  CHECK(message_of<UserError>([&] { tree.open("shards", Split::test); }) ==
        tree.path() + ": no file name matches *val*.tar: set data.test_shards");
  CHECK(message_of<UserError>([&] { tree.open("shards", Split::train, 2); }) ==
        tree.path() + ": images have 1 or 3 channels, but model.channels is 2");
  CHECK(tree.message(tar_sample("k", "x", "7") + tar_end()) == "(nothing was thrown)");
  CHECK(
      message_of<UserError>([&] { tree.open("shards", Split::train, 3, {}, 7); }) ==
      tree.path() +
          ": sample 0 has label 7, of labels from 7 to 7, but the model has 7 classes: set model.classes=8");
}

TEST_CASE("Of many shards the first that is bad is told, whichever thread meets it") {
  const test::ImageFileTree tree;
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "train-" + std::to_string(100 + i) + ".tar";
    tree.write(name, tar_sample(std::to_string(i), "x", std::to_string(i)) + tar_end());
    paths.push_back(tree.file(name));
  }
  const auto shards = index_shards(paths);
  REQUIRE(shards.size() == 40);
  for (std::size_t i = 0; i < 40; ++i) {
    CHECK(shards[i].path == paths[i]);
    CHECK(shards[i].images.at(0).label == static_cast<std::int32_t>(i));
  }
  for (const int bad : {39, 31, 30, 22})
    tree.write("train-" + std::to_string(100 + bad) + ".tar", tar_entry("k.jpg", "x") + tar_end());
  for (int again = 0; again < 20; ++again) {
    CHECK(message_of<UserError>([&] { index_shards(paths); }) ==
          paths[22] + ": k: an image without a .cls next to it (do a sample's entries follow each other?)");
  }
}

TEST_CASE("A shard that was cut off anywhere is refused by its name") {
  const OneShard tree;
  std::string whole = test::tar_pax("path", "first.jpg") + tar_entry("cut", std::string(1300, 'x')) +
                      tar_entry("first.cls", "3");
  for (int i = 0; i < 3; ++i)
    whole += tar_sample("k" + std::to_string(i), std::string(700, 'y'), std::to_string(i));
  const std::size_t end = whole.size();
  whole += tar_end();
  std::vector<std::size_t> cuts;
  for (std::size_t cut = 0; cut < whole.size(); cut += 512) cuts.push_back(cut);
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) cuts.push_back(random() % whole.size());
  for (const std::size_t cut : cuts) {
    CAPTURE(cut);
    const std::string message = tree.message(std::string_view(whole).substr(0, cut));
    // One of the two blocks of zeros at the end is enough.
    if (cut >= end + 512) {
      CHECK(message == "(nothing was thrown)");
    } else {
      CHECK(message.starts_with(tree.shard() + ": "));
      CHECK(message.find('\n') == std::string::npos);
    }
  }
  CHECK(tree.message(std::string_view(whole).substr(0, end)) ==
        tree.shard() + ": truncated: it ends at byte " + std::to_string(end) +
            " without a tar file's end; download the shard again");
  const std::string announced = whole.substr(0, end) + test::tar_pax("path", "lost.jpg");
  for (const std::size_t less : {0, 1, 500, 512, 900}) {
    CHECK_THAT(tree.message(std::string_view(announced).substr(0, announced.size() - less)),
               REWIRE_CATCH_CONTAINS("download the shard again"));
  }
  CHECK(tree.message(std::string_view(whole).substr(0, 3 * 512 + 100))
            .find("truncated: its .jpg of 1300 bytes begins at byte 1536") != std::string::npos);
}

TEST_CASE("Flipped bytes in a shard's headers give samples inside the file, or one line") {
  const OneShard tree;
  std::string whole =
      test::tar_pax("path", "first.jpg") + tar_entry("cut", std::string(1300, 'x')) +
      tar_entry("first.cls", "3") + tar_entry("././@LongLink", std::string(120, 'l') + ".png", 'L') +
      tar_entry("cut", "image") + tar_entry("././@LongLink", std::string(120, 'l') + ".cls", 'L') +
      tar_entry("cut", "1") + tar_sample("k", std::string(600, 'y'), "2") + tar_end();
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < 600; ++i) {
    std::string text = whole;
    const std::size_t flips = 1 + random() % 3;
    for (std::size_t flip = 0; flip < flips; ++flip)
      text[random() % text.size()] = static_cast<char>(random());
    if (i % 2 == 0) {  // with a sum that is right: the fields themselves are judged
      for (std::size_t at = 0; at + 512 <= text.size(); at += 512) {
        if (text.compare(at + 257, 5, "ustar") != 0) continue;
        text.replace(at + 148, 8, "        ");
        std::uint32_t sum = 0;
        for (std::size_t b = 0; b < 512; ++b) sum += static_cast<unsigned char>(text[at + b]);
        text.replace(at + 148, 8, fmt::format("{:06o}", sum) + '\0' + ' ');
      }
    }
    tree.write("a-train-0.tar", text);
    const std::string message = message_of<UserError>([&] {
      const ShardIndex index = index_shard(tree.shard());
      for (const ShardImage& image : index.images) CHECK(image.offset + image.size <= index.file_size);
    });
    CAPTURE(i, message);
    if (message == "(nothing was thrown)") continue;
    ++refused;
    CHECK(message.starts_with(tree.shard() + ": "));
    CHECK(message.find('\n') == std::string::npos);
  }
  CHECK(refused > 100);
}

TEST_CASE("A size that a header claims is held against the file before it is believed") {
  const OneShard tree;
  std::string huge = tar_sample("k", "x", "1") + tar_end();
  for (const std::string_view size : {"77777777777", "00000001777"}) {
    CAPTURE(size);
    std::string text = huge;
    text.replace(124, 11, size);
    text.replace(148, 8, "        ");
    std::uint32_t sum = 0;
    for (std::size_t b = 0; b < 512; ++b) sum += static_cast<unsigned char>(text[b]);
    text.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
    text.resize(1200);
    CHECK(tree.after_name(text).starts_with("k: truncated: its .jpg of "));
  }
}

TEST_CASE("Indexing a shard reads its headers and labels, not its images") {
  const OneShard tree;
  std::string text;
  constexpr int kImages = 100;
  const std::string image(100'000, 'x');
  for (int i = 0; i < kImages; ++i) text += tar_sample("s" + std::to_string(i), image, std::to_string(i));
  text += tar_end();
  tree.write("a-train-0.tar", text);
  const ShardIndex index = index_shard(tree.shard());
  REQUIRE(index.images.size() == kImages);
  CHECK(index.file_size == text.size());
  CHECK(index.bytes_read * 20 < index.file_size);
  for (std::size_t i = 0; i < kImages; ++i) {
    CHECK(index.name(i) == "s" + std::to_string(i) + ".jpg");
    CHECK(text.compare(index.images[i].offset - 1, image.size() + 2, '\0' + image + '\0') == 0);
  }
}

TEST_CASE("What looks like an image and is no sample is counted by kind") {
  const test::ImageFileTree tree;
  std::string text;
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    text += tar_sample("good" + n, "x", "0") + tar_entry("good" + n + ".seg.png", "of another kind") +
            tar_entry("img" + n + ".0.5x.jpg", "x") + tar_entry("img" + n + ".0.5x.cls", "1");
  }
  text += tar_entry("w0.webp", "x") + tar_entry("w0.txt", "cat") + tar_entry("w1.webp", "x") +
          tar_entry("w1.cls", "1") + tar_entry("deep/._good0.jpg", "x") + tar_entry("j.jpg.json", "{}");
  tree.write("a-train-0.tar", text + tar_end());
  tree.write("b-train-0.tar", tar_sample("k", "x", "1") + tar_entry("i.avif", "x") +
                                  tar_entry("i.txt", "dog") + tar_entry("a.b.png", "x") + tar_end());
  const auto source = tree.open("shards");
  CHECK(source->count() == 4);
  CHECK(source->notes().left_out ==
        std::vector<std::string>{
            "samples that look like images but are left out: 1 .avif, 2 .webp, 1 hidden, 4 with a dot in the "
            "key; a key ends at the first dot, so img0.0.5x.jpg is not an image: rename it"});
  tree.write("a-train-0.tar", tar_entry("w0.webp", "x") + tar_end());
  CHECK(message_of<UserError>([&] { tree.open("shards"); }).ends_with("of a name; it holds 1 .webp"));
  tree.write("a-train-0.tar", tar_sample("k", "x", "1") + tar_end());
  fs::remove(tree.file("b-train-0.tar"));
  CHECK(tree.open("shards")->notes().left_out.empty());
}

TEST_CASE("Tar files that were appended to each other are read to the end") {
  const OneShard tree;
  const std::string first =
      tar_sample("a", golden_text("png_rgb"), "1") + tar_sample("b", "x", "2") + tar_end();
  const std::string second = tar_sample("c", golden_text("jpeg_420"), "3") + tar_sample("a", "y", "4");
  for (const std::size_t padding : {std::size_t{0}, std::size_t{512}, std::size_t{9 * 1024}}) {
    CAPTURE(padding);
    tree.write("a-train-0.tar", first + std::string(padding, '\0') + second + tar_end());
    const auto source = tree.open("shards");
    REQUIRE(source->count() == 4);
    for (std::int64_t i = 0; i < 4; ++i) CHECK(source->label(i) == i + 1);
    check_pixels(*source, 0, "png_rgb");
    check_pixels(*source, 2, "jpeg_420");
  }
  CHECK_THAT(tree.after_name(first + second), REWIRE_CATCH_CONTAINS("without a tar file's end"));
  CHECK_THAT(tree.after_name(first + "garbage"), REWIRE_CATCH_CONTAINS("not a complete tar file: "));
  CHECK(tree.after_name(first + tar_entry("a.json", "{}") + tar_end()) ==
        "a: its entries do not follow each other in the shard");
}

TEST_CASE("classes.txt is a file of as many lines as there may be classes") {
  const OneShard tree;
  tree.write("a-train-0.tar", tar_sample("k", "x", "1") + tar_end());
  tree.write("classes.txt", std::string(5'000'000, '\n'));
  const auto message = [&] { return message_of<UserError>([&] { tree.open("shards"); }); };
  CHECK(message() == tree.file("classes.txt") + ": it has more than 1000000 lines");
  fs::remove(tree.file("classes.txt"));
  REQUIRE(::mkfifo(tree.file("classes.txt").c_str(), 0600) == 0);
  CHECK(message() == "cannot read " + tree.file("classes.txt") + ": it is a pipe or a device, not a file");
}

/// Shards of the sizes in turn, whose images are never read; labels count through.
class CountedShards : public test::ImageFileTree {
 public:
  explicit CountedShards(const std::vector<int>& sizes) {
    int label = 0;
    for (std::size_t shard = 0; shard < sizes.size(); ++shard) {
      std::string text;
      for (int i = 0; i < sizes[shard]; ++i, ++label)
        text += tar_sample(std::to_string(label), "x", std::to_string(label));
      write("train-" + std::to_string(shard) + ".tar", text + tar_end());
    }
  }
  std::unique_ptr<ImageSource> with_buffer(std::int64_t buffer) const {
    return open("shards", Split::train, 3, {{"shuffle_buffer", buffer}});
  }
};

TEST_CASE("An epoch's order is a permutation of all samples, a function of the seed and the epoch") {
  const CountedShards tree({13, 1, 8, 29, 5});
  for (const std::int64_t buffer : {1, 2, 7, 55, 56, 57, 1000}) {
    CAPTURE(buffer);
    const auto source = tree.with_buffer(buffer);
    const auto order = source->order(7, 3);
    std::vector<std::uint32_t> sorted = order, all(56);
    std::ranges::sort(sorted);
    std::iota(all.begin(), all.end(), 0U);
    CHECK(sorted == all);
    CHECK(source->order(7, 3) == order);
    CHECK(tree.with_buffer(buffer)->order(7, 3) == order);
    CHECK(source->order(7, 4) != order);
    CHECK(source->order(8, 3) != order);
  }
}

TEST_CASE("With a buffer of one, samples come as they stand in shards that are in a random order") {
  const std::vector<int> sizes = {13, 1, 8, 29, 5};
  const CountedShards tree(sizes);
  const auto source = tree.with_buffer(1);
  std::vector<std::uint32_t> first(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), first.begin(), 0U);
  for (const std::int64_t epoch : {0, 1, 2, 3}) {
    std::vector<std::uint32_t> wanted;
    for (const std::uint32_t shard : epoch_order(std::ssize(sizes), 21, epoch)) {
      for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(sizes[shard]); ++i)
        wanted.push_back(first[shard] + i);
    }
    CHECK(source->order(21, epoch) == wanted);
  }
}

TEST_CASE("A buffer lets no sample come earlier than it was read, and a large one moves almost all") {
  const CountedShards tree({400});
  constexpr std::int64_t kBuffer = 32;
  const auto order = tree.with_buffer(kBuffer)->order(1, 0);
  for (std::size_t place = 0; place < order.size(); ++place) {
    CHECK(order[place] < place + kBuffer);  // samples 0 … place + 31 have been read by then
  }
  std::size_t moved = 0;
  for (std::size_t place = 0; place < order.size(); ++place) moved += order[place] != place ? 1 : 0;
  CHECK(moved > 350);
  const auto whole = tree.with_buffer(400)->order(1, 0);
  double distance = 0;  // of a random permutation: a third of the samples on the mean
  for (std::size_t place = 0; place < whole.size(); ++place)
    distance += std::abs(static_cast<double>(whole[place]) - static_cast<double>(place)) / 400;
  CHECK(distance > 115);
  CHECK(distance < 152);
}

TEST_CASE("What leaves the buffer is any sample of it with one probability") {
  const CountedShards tree({8});
  const auto source = tree.with_buffer(4);
  constexpr int kEpochs = 4000;
  // At place 0 each of 0 … 3; at the last place anything, the late ones more often.
  std::map<std::uint32_t, int> first, last;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = source->order(99, epoch);
    ++first[order.front()];
    ++last[order.back()];
  }
  REQUIRE(first.size() == 4);
  double chi = 0;
  for (const auto& counted : first)
    chi += (counted.second - kEpochs / 4.0) * (counted.second - kEpochs / 4.0) / (kEpochs / 4.0);
  CHECK(chi < 16.27);  // of three degrees of freedom: one in a thousand is larger
  // Sample 0 is in the buffer at all of eight draws: of four, four, four, four, four, then three and two are left.
  const double stays = 0.75 * 0.75 * 0.75 * 0.75 * 0.75 * (2.0 / 3) * (1.0 / 2);
  CHECK(std::abs(last[0] - kEpochs * stays) < 4 * std::sqrt(kEpochs * stays));
}

TEST_CASE("A shard that is changed, cut or gone after it was opened is named when an image of it is read") {
  const OneShard tree;
  const std::string text = tar_sample("k", golden_text("jpeg_420"), "1") + tar_end();
  tree.write("a-train-0.tar", text);
  const auto source = tree.open("shards");
  check_pixels(*source, 0, "jpeg_420");
  const auto time = fs::last_write_time(tree.shard());
  ReadBuffer buffer;
  const auto message = [&] { return message_of<UserError>([&] { source->decode(0, buffer, nullptr); }); };
  const std::string changed =
      tree.shard() + ": the shard has changed since it was opened: run the command again";
  fs::last_write_time(tree.shard(), time + std::chrono::nanoseconds(1));
  CHECK(message() == changed);
  fs::last_write_time(tree.shard(), time);
  CHECK(message() == "(nothing was thrown)");
  fs::resize_file(tree.shard(), text.size() - 1);
  fs::last_write_time(tree.shard(), time);
  CHECK(message() == changed);
  fs::remove(tree.shard());
  CHECK(message() == "cannot read " + tree.shard() + ": No such file or directory");
  fs::create_directory(tree.shard());
  CHECK(message() == changed);
  CHECK(message_of<UserError>([&] { tree.open("shards"); }) ==
        tree.shard() + ": it is a folder, not a shard");
  fs::remove(tree.shard());
  fs::create_symlink("a-train-0.tar", tree.shard());
  CHECK(message_of<UserError>([&] { tree.open("shards"); }) ==
        "cannot read " + tree.shard() + ": Too many levels of symbolic links");
}

TEST_CASE("An image in a shard that cannot be decoded is named with its shard") {
  const OneShard tree;
  tree.write("a-train-0.tar", tar_sample("a\nb", "no image", "1") + tar_end());
  const auto source = tree.open("shards");
  ReadBuffer buffer;
  CHECK(message_of<UserError>([&] { source->decode(0, buffer, nullptr); }) ==
        tree.shard() + "/a\\x0ab.jpg: neither JPEG nor PNG");
}

TEST_CASE("A shard that both patterns match is refused; a sample may be called as bzip2's files begin") {
  const OneShard tree;
  tree.write("medieval-train-0.tar", tar_sample("BZh9", "x", "0") + tar_end());
  const std::string both = ": it matches both data.train_shards and data.test_shards: narrow one of them";
  CHECK(message_of<UserError>([&] { tree.open("shards"); }) == tree.file("medieval-train-0.tar") + both);
  CHECK(message_of<UserError>([&] { tree.open("shards", Split::test); }) ==
        tree.file("medieval-train-0.tar") + both);
  CHECK(tree.open("shards", Split::train, 3, {{"test_shards", std::string("*-val-*.tar")}})->count() == 1);
}

TEST_CASE("An entry of more than an image may have is refused, however little there is of it on the disk") {
  const OneShard tree;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  tree.write("a-train-0.tar", test::tar_header("k.jpg", kMost + 1));
  fs::resize_file(tree.shard(), kMost + 4096);
  CHECK(message_of<UserError>([&] { tree.open("shards"); }) ==
        tree.shard() + ": k: its .jpg has 1073741825 bytes: more than the 1073741824 that an image may have");
}

TEST_CASE("Shards' fingerprint changes with their names, sizes and times") {
  const CountedShards tree({2, 3});
  const std::string first = tree.with_buffer(1)->fingerprint();
  CHECK(first.size() == 64);
  CHECK(tree.with_buffer(9)->fingerprint() == first);
  const auto time = fs::last_write_time(tree.file("train-1.tar"));
  fs::last_write_time(tree.file("train-1.tar"), time + std::chrono::nanoseconds(1));
  CHECK(tree.with_buffer(1)->fingerprint() != first);
  fs::last_write_time(tree.file("train-1.tar"), time);  // the time of that change remains
  CHECK(tree.with_buffer(1)->fingerprint() != first);
  fs::rename(tree.file("train-1.tar"), tree.file("train-2.tar"));
  CHECK(tree.with_buffer(1)->fingerprint() != first);
}

}  // namespace
}  // namespace rewire::runtime

// What is told of a data set: held to formulas, on images of odd sizes, whatever the number of threads.
#include "runtime/data/catalog/data_info.h"
#include "runtime/data/catalog/sources.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "ir/error.h"
#include "ir/philox.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using test::message_of;

struct ListedImage {
  std::int64_t height = 1, width = 1;
  std::vector<std::uint8_t> pixels;  // of three channels; none: it cannot be read
  std::int64_t label = 0;
};

struct ListedData {
  std::vector<ListedImage> images[2];  // train, test
  bool is_there[2] = {true, true};
  std::vector<std::string> names;
};
ListedData listed;  // what the source below gives

class ListedImages final : public ImageSource {
 public:
  explicit ListedImages(Split split) : split_(split == Split::train ? 0 : 1) {}
  std::string name() const override { return split_ == 0 ? "listed/train" : "listed/test"; }
  std::int64_t count() const override { return std::ssize(listed.images[split_]); }
  ir::Shape shape() const override { return {3, 0, 0}; }
  std::int64_t label(std::int64_t index) const override { return at(index).label; }
  std::vector<std::string> class_names() const override { return listed.names; }
  StoredImage decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction&) const override {
    const ListedImage& image = at(index);
    buffer.pixels.assign(1000, 0xA5);  // what is left from another image is no part of this one
    if (image.pixels.empty()) user_error("{}: damaged", sample_name(index));
    std::ranges::copy(image.pixels, buffer.pixels.begin());
    return {std::span(buffer.pixels).first(image.pixels.size()), image.height, image.width};
  }

 private:
  const ListedImage& at(std::int64_t index) const {
    return listed.images[split_][static_cast<std::size_t>(index)];
  }
  std::size_t split_;
};

const SourceRow kListedSource{
    "listed",
    "images of a test",
    {ir::path_parameter("path", "", "nowhere")},
    [](const ir::Attributes&, const SourceContext& context) {
      const bool is_train = context.split == Split::train;
      if (!listed.is_there[is_train ? 0 : 1])
        user_error("listed/{}: is not there", is_train ? "train" : "test");
      return std::unique_ptr<Source>(new ListedImages(context.split));
    },
    [](const std::string& path) { return path.ends_with(".listed") || path.ends_with(".both"); }};
const SourceRow kOtherSource{"other_listed", "never opened", {}, nullptr, [](const std::string& path) {
                               return path.ends_with(".both");
                             }};

/// The source, once in the list.
const ir::Selection& listed_selection() {
  static const ir::Selection selection = [] {
    add_source(kListedSource);
    add_source(kOtherSource);
    return ir::Selection{"listed"};
  }();
  return selection;
}

DataInfo examine_listed(int threads = 1, std::int64_t images = 0) {
  return examine_data(listed_selection(), {threads, images, nullptr});
}

ListedImage random_image(std::int64_t height, std::int64_t width, std::int64_t label, std::uint64_t salt) {
  const ir::PhiloxStream random{salt, 0, ir::stream_hash("test.data_info")};
  ListedImage image{height, width, {}, label};
  for (std::int64_t i = 0; i < 3 * height * width; ++i)
    image.pixels.push_back(static_cast<std::uint8_t>(random.bits(static_cast<std::uint64_t>(i))));
  return image;
}

ListedImage flat_image(std::uint8_t level, std::int64_t label = 0) {
  return {1, 1, {level, level, level}, label};
}

/// Mean and deviation of a channel in two passes.
std::pair<double, double> two_passes(const std::vector<ListedImage>& images, std::size_t channel) {
  std::vector<long double> pixels;
  for (const ListedImage& image : images) {
    const std::size_t plane = image.pixels.size() / 3;
    for (std::size_t i = 0; i < plane; ++i) pixels.push_back(image.pixels[channel * plane + i] / 255.0L);
  }
  long double sum = 0, squares = 0;
  for (const long double pixel : pixels) sum += pixel;
  const long double mean = sum / static_cast<long double>(pixels.size());
  for (const long double pixel : pixels) squares += (pixel - mean) * (pixel - mean);
  return {static_cast<double>(mean),
          static_cast<double>(std::sqrt(squares / static_cast<long double>(pixels.size())))};
}

TEST_CASE("Classes, sizes, mean and std are the images', and no thread changes a bit of them") {
  listed = {};
  listed.names = {"ant", "bee", "cow", "dog"};
  for (std::uint64_t i = 0; i < 41; ++i) {
    const auto n = static_cast<std::int64_t>(i);
    listed.images[0].push_back(random_image(1 + n % 7, 1 + n % 5, n % 3 == 0 ? 0 : 2, i));
  }
  listed.images[1].push_back(random_image(9, 2, 1, 99));
  const DataInfo one = examine_listed(1);
  REQUIRE(one.splits.size() == 2);
  const SplitInfo& train = one.splits[0];
  CHECK(train.name == "listed/train");
  CHECK(train.count == 41);
  CHECK(train.examined == 41);
  CHECK(train.channels == 3);
  CHECK(train.classes == std::map<std::int64_t, std::int64_t>{{0, 14}, {1, 0}, {2, 27}, {3, 0}});
  CHECK(train.class_names == listed.names);
  CHECK(train.sizes == 35);  // 7 x 5 pairs, all of which 41 images have
  CHECK(std::tuple(train.height.least, train.height.median, train.height.greatest) == std::tuple(1, 4, 7));
  CHECK(std::tuple(train.width.least, train.width.median, train.width.greatest) == std::tuple(1, 3, 5));
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const auto [mean, deviation] = two_passes(listed.images[0], channel);
    CHECK(train.mean.at(channel) == Approx(mean).epsilon(1e-14));
    CHECK(train.deviation.at(channel) == Approx(deviation).epsilon(1e-14));
  }
  for (const int threads : {2, 5, 64}) {
    const DataInfo many = examine_listed(threads);
    CHECK(many.splits[0].mean == train.mean);
    CHECK(many.splits[0].deviation == train.deviation);
    CHECK(many.splits[1].mean == one.splits[1].mean);
  }
}

TEST_CASE("Images that are there twice are counted, named, and told apart by label and by split") {
  listed = {};
  ListedImage wide = random_image(2, 3, 0, 1), tall = wide;
  std::swap(tall.height, tall.width);  // the same bytes in another shape are another image
  listed.images[0] = {wide, tall,         random_image(4, 4, 1, 2), wide, random_image(4, 4, 0, 2),
                      wide, flat_image(3)};
  listed.images[1] = {random_image(5, 1, 0, 3), tall, random_image(5, 1, 0, 3), random_image(4, 4, 0, 2)};
  for (const int threads : {1, 3}) {
    const DataInfo info = examine_listed(threads);
    const EqualCount& twice = info.splits[0].duplicates;
    CHECK(twice.images == 3);
    CHECK(twice.other_label == 1);
    const auto told = [](const EqualCount& count) {
      std::vector<std::string> lines;
      for (const EqualImages& pair : count.first) lines.push_back(pair.image + " = " + pair.earlier);
      return lines;
    };
    CHECK(told(twice) == std::vector<std::string>{"listed/train: image 3 = listed/train: image 0",
                                                  "listed/train: image 4 = listed/train: image 2",
                                                  "listed/train: image 5 = listed/train: image 0"});
    CHECK(told(info.splits[1].duplicates) ==
          std::vector<std::string>{"listed/test: image 2 = listed/test: image 0"});
    CHECK(info.leaks.images == 2);
    CHECK(info.leaks.other_label == 1);
    CHECK(told(info.leaks) == std::vector<std::string>{"listed/test: image 1 = listed/train: image 1",
                                                       "listed/test: image 3 = listed/train: image 2"});
  }
  listed = {};
  for (int i = 0; i < 9; ++i) listed.images[0].push_back(flat_image(200));
  const DataInfo many = examine_listed();
  CHECK(many.splits[0].duplicates.images == 8);
  CHECK(many.splits[0].duplicates.first.size() == 5);
  CHECK(many.splits[0].deviation == std::vector<double>{0, 0, 0});
  CHECK(many.splits[1].count == 0);
  CHECK(many.splits[1].mean.empty());
}

TEST_CASE("Images that cannot be read are counted, and the first five named in their order") {
  listed = {};
  for (int i = 0; i < 60; ++i)
    listed.images[0].push_back(i % 6 == 1 ? ListedImage{} : flat_image(static_cast<std::uint8_t>(i)));
  for (const int threads : {1, 4}) {
    const SplitInfo train = examine_listed(threads).splits[0];
    CHECK(train.unreadable == 10);
    std::vector<std::string> wanted;
    for (const int i : {1, 7, 13, 19, 25})
      wanted.push_back(fmt::format("listed/train: image {}: damaged", i));
    CHECK(train.first_unreadable == wanted);
    double sum = 0;
    for (int i = 0; i < 60; ++i) sum += i % 6 == 1 ? 0 : i;
    CHECK(train.mean.at(0) == Approx(sum / 50 / 255).epsilon(1e-14));
    CHECK(train.duplicates.images == 0);
    CHECK(train.sizes == 1);
  }
}

TEST_CASE("Of many images, some are examined, spread evenly") {
  listed = {};
  for (std::uint8_t i = 0; i < 10; ++i) listed.images[0].push_back(flat_image(i, i % 2));
  const SplitInfo train = examine_listed(2, 4).splits[0];
  CHECK(train.count == 10);
  CHECK(train.examined == 4);
  CHECK(train.classes == std::map<std::int64_t, std::int64_t>{{0, 5}, {1, 5}});  // labels need no reading
  CHECK(train.mean.at(0) == Approx((0 + 2 + 5 + 7) / 4.0 / 255).epsilon(1e-14));
  CHECK(examine_listed(1, 11).splits[0].examined == 10);
}

TEST_CASE("A split that is not there is told of; where neither is, that is an error") {
  listed = {};
  listed.images[0] = {flat_image(1)};
  listed.is_there[1] = false;
  const DataInfo info = examine_listed();
  CHECK(info.splits[0].problem.empty());
  CHECK(info.splits[1].problem == "listed/test: is not there");
  CHECK(info.leaks.images == 0);
  listed.is_there[0] = false;
  CHECK(message_of<UserError>([] { examine_listed(); }) == "listed/train: is not there");
  CHECK(message_of<UserError>([] { draw_classes(listed_selection()); }) == "listed/train: is not there");
  listed.is_there[1] = true;
  listed.images[1] = {flat_image(9)};
  const ClassSheet sheet = draw_classes(listed_selection());
  CHECK(sheet.split == Split::test);
  CHECK(sheet.rows.size() == 1);
}

TEST_CASE("A sheet has a row for each of ten classes at most, with eight images of it at most") {
  listed = {};
  for (int i = 0; i < 12 * 9; ++i)
    listed.images[0].push_back(flat_image(static_cast<std::uint8_t>(i + 1), 3 * (i % 12)));
  listed.images[0][12] = {};  // of class 0 the second, which cannot be read; it is on the sheet
  const ClassSheet sheet = draw_classes(listed_selection());
  REQUIRE(sheet.rows.size() == 10);
  std::vector<std::int64_t> labels;
  for (const SheetRow& row : sheet.rows) labels.push_back(row.label);
  // Of 12, each 12/10: 0, 1, 2, 3, 4, 6, 7, 8, 9, 10; a class has every third number.
  CHECK(labels == std::vector<std::int64_t>{0, 3, 6, 9, 12, 18, 21, 24, 27, 30});
  // Of 9, each 9/8: the first eight.
  CHECK(sheet.rows[1].images == std::vector<std::int64_t>{1, 13, 25, 37, 49, 61, 73, 85});
  REQUIRE(sheet.image.height == 10 * 100 + 4);
  REQUIRE(sheet.image.width == 8 * 100 + 4);
  const auto middle = [&](std::size_t row, std::size_t column) {
    return sheet.image
        .pixels[(row * 100 + 52) * static_cast<std::size_t>(sheet.image.width) + column * 100 + 52];
  };
  CHECK(middle(0, 0) == 1);
  CHECK(middle(0, 1) == 128);
  CHECK(middle(0, 2) == 25);
  CHECK(middle(9, 7) == 10 + 7 * 12 + 1);
}

TEST_CASE("The format is found by those who recognise the data, if it is one") {
  listed_selection();
  CHECK(detect_format("/nowhere/a.listed") == "listed");
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("a.both"));
  CHECK(message_of<UserError>([&] { detect_format(folder.file("a.both")); }) ==
        folder.file("a.both") + ": it may be listed or other_listed: choose one with --format");
  CHECK(message_of<UserError>([&] { detect_format(folder.path().string()); }) ==
        fmt::format("{}: cannot tell the format of the data there: give one of {} with --format",
                    folder.path().string(), fmt::join(ir::row_names(sources()), "|")));
  CHECK(message_of<UserError>([&] { detect_format(folder.file("no\ndata")); }) ==
        folder.file("no\\x0adata") + ": No such file or directory");
}

}  // namespace
}  // namespace rewire::runtime

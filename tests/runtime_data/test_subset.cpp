// Parts of a source: by a list, by a share of each class.
#include <algorithm>
#include <cmath>

#include "runtime/data/vision/subset.h"
#include "runtime/io/files.h"
#include "tests/runtime_data/counted_images.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using test::message_of;

TEST_CASE("A subset has the images of its indices, in an order that is the source's without the others") {
  auto whole = std::make_unique<CountedImages>(10);
  const std::vector<std::uint32_t> order = whole->order(3, 4);
  const std::string fingerprint = whole->fingerprint();
  const std::vector<std::uint32_t> indices = {1, 4, 5, 9};
  const auto part = take_images(std::move(whole), indices);
  REQUIRE(part->count() == 4);
  ReadBuffer buffer;
  for (std::int64_t i = 0; i < 4; ++i) {
    const std::int64_t image = indices[static_cast<std::size_t>(i)];
    CHECK(part->label(i) == image % 3);
    CHECK(part->decode(i, buffer, nullptr).pixels[0] == image);
    CHECK(part->sample_name(i) == CountedImages(10).sample_name(image));
  }
  std::vector<std::uint32_t> expected;
  for (const std::uint32_t image : order) {
    const auto at = std::ranges::find(indices, image);
    if (at != indices.end()) expected.push_back(static_cast<std::uint32_t>(at - indices.begin()));
  }
  CHECK(part->order(3, 4) == expected);
  CHECK(expected.size() == 4);
  CHECK(part->fingerprint() != fingerprint);
  CHECK(take_images(std::make_unique<CountedImages>(10), {1, 4, 5})->fingerprint() != part->fingerprint());
}

TEST_CASE("A list names images by the ends of their paths, or by their numbers") {
  const test::TemporaryFolder folder;
  const std::string list = folder.file("list.txt");
  const CountedImages images(9);  // counted/0/0.png, counted/1/0.png, ... counted/2/2.png
  const auto listed = [&](const std::string& text) {
    write_file_atomically(list, text);
    return listed_images(images, list);
  };
  const auto refused = [&](const std::string& text) { return message_of<UserError>([&] { listed(text); }); };
  CHECK(listed("2/1.png\r\n\ncounted/0/2.png\n7") == std::vector<std::uint32_t>{5, 6, 7});
  CHECK(refused("") == list + ": it names no image");
  CHECK(refused("1/1.png\n1.png\n") == list + ":2: counted has several images 1.png: add their folders");
  CHECK(refused("1/3.png") == list + ":1: counted has no image 1/3.png");
  CHECK(refused("ed/0/2.png") == list + ":1: counted has no image ed/0/2.png");
  CHECK(refused("x/counted/0/2.png") == list + ":1: counted has no image x/counted/0/2.png");
  CHECK(refused("9") == list + ":1: 9 is not an image of counted, which has 9");
  CHECK(refused("99999999999999999999") ==
        list + ":1: 99999999999999999999 is not an image of counted, which has 9");
  CHECK(refused("4\n1/1.png") == list + ":2: 1/1.png is already in line 1");
  CountedImages absolute(9);
  absolute.root = "/";
  write_file_atomically(list, std::string_view("/counted/0/2.png\ncounted/1/2.png\n2/2.png"));
  CHECK(listed_images(absolute, list) == std::vector<std::uint32_t>{6, 7, 8});
  CHECK(refused("a\x1b[2Jb") == list + ":1: counted has no image a\\x1b[2Jb");
}

TEST_CASE("A share of each class is the same for every run, and lies in every larger share") {
  const CountedImages images(1000);
  std::vector<std::uint32_t> smaller;
  for (const double share : {1e-9, 0.01, 0.1, 0.5, 1.0}) {
    const std::vector<std::uint32_t> taken = images_of_each_class(images, share);
    CHECK(std::ranges::is_sorted(taken));
    CHECK(std::ranges::includes(taken, smaller));
    std::int64_t classes[3] = {};
    for (const std::uint32_t image : taken) ++classes[images.label(image)];
    const std::int64_t all[3] = {334, 333, 333};
    for (int i = 0; i < 3; ++i)
      CHECK(classes[i] == std::max<std::int64_t>(1, std::llround(share * static_cast<double>(all[i]))));
    smaller = taken;
  }
  CHECK(smaller.size() == 1000);
}

}  // namespace
}  // namespace rewire::runtime

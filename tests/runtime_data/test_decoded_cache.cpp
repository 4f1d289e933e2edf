// Decoded images in a mapped file: the same pixels, made once, made anew where a byte is another.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "runtime/data/vision/decoded_cache.h"
#include "runtime/io/files.h"
#include "tests/runtime_data/counted_images.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using test::message_of;

struct Cached {
  std::unique_ptr<ImageSource> source;
  int reads;  // of the images themselves, while it was opened
};

Cached open_cached(std::int64_t count, const std::string& folder, int threads = 1) {
  auto images = std::make_unique<CountedImages>(count);
  const auto reads = images->reads;
  auto source = cache_decoded(std::move(images), {folder, threads});
  return {std::move(source), *reads};
}

void check_pixels(const ImageSource& cached, const ImageSource& images) {
  ReadBuffer one, other;
  REQUIRE(cached.count() == images.count());
  for (std::int64_t i = 0; i < images.count(); ++i) {
    const StoredImage expected = images.decode(i, one, nullptr), found = cached.decode(i, other, nullptr);
    CHECK(found.height == expected.height);
    CHECK(found.width == expected.width);
    CHECK(std::ranges::equal(found.pixels, expected.pixels));
    CHECK(cached.label(i) == images.label(i));
    CHECK(cached.sample_name(i) == images.sample_name(i));
  }
  CHECK(cached.order(5, 2) == images.order(5, 2));
}

TEST_CASE("Images are decoded once, by any number of threads into the same file") {
  for (const std::int64_t count : {1, 2, 600}) {
    std::vector<std::byte> first;
    for (const int threads : {1, 3}) {
      const test::TemporaryFolder folder;
      const std::string cache = folder.file("deep/cache");
      CHECK(open_cached(count, cache, threads).reads == count);
      const Cached again = open_cached(count, cache);
      CHECK(again.reads == 0);
      check_pixels(*again.source, CountedImages(count));
      const std::vector<std::byte> file = read_file(cache + "/abc.images");
      CHECK((first.empty() || first == file));
      first = file;
    }
  }
}

TEST_CASE("A cache with another byte anywhere, or cut off anywhere, is made anew") {
  const test::TemporaryFolder folder;
  const std::string cache = folder.path().string(), path = cache + "/abc.images";
  open_cached(7, cache);
  const std::vector<std::byte> sound = read_file(path);
  const auto heals = [&](const std::vector<std::byte>& damaged) {
    write_file_atomically(path, damaged);
    const Cached cached = open_cached(7, cache);
    CHECK(cached.reads == 7);
    CHECK(read_file(path) == sound);
  };
  for (std::size_t i = 0; i < sound.size(); i += 7) {
    std::vector<std::byte> damaged = sound;
    damaged[i] ^= std::byte{0x10};
    heals(damaged);
  }
  for (std::size_t size = 0; size < sound.size(); size += 31)
    heals({sound.begin(), sound.begin() + static_cast<long>(size)});
  heals(std::vector<std::byte>(300));
  // One of another number of images under the same name.
  CHECK(open_cached(6, cache).reads == 6);
}

TEST_CASE(
    "An image that cannot be decoded whole is read from the source, where the part that is needed may be "
    "sound") {
  const test::TemporaryFolder folder;
  auto images = std::make_unique<CountedImages>(9, std::set<std::int64_t>{4});
  const auto reads = images->reads;
  const auto cached = cache_decoded(std::move(images), {folder.path().string(), 2});
  CHECK(*reads == 9);
  ReadBuffer buffer;
  CHECK(cached->decode(5, buffer, nullptr).pixels[0] == 5);
  CHECK(*reads == 9);
  CHECK(message_of<UserError>([&] { cached->decode(4, buffer, nullptr); }) == "counted/1/1.png: damaged");
  const BoxFunction part = [](std::int64_t, std::int64_t) { return Box{0, 0, 1, 1}; };
  CHECK(cached->decode(4, buffer, part).pixels[0] == 4);
  CHECK(*reads == 11);
}

TEST_CASE("A cache that is cut, or written to, after it was opened is named when an image of it is read") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("abc.images");
  const Cached cached = open_cached(9, folder.path().string());
  const std::vector<std::byte> sound = read_file(path);
  ReadBuffer buffer;
  const auto message = [&] {
    return message_of<UserError>([&] { cached.source->decode(5, buffer, nullptr); });
  };
  CHECK(message() == "(nothing was thrown)");
  const std::string changed =
      path + ": the decoded images have changed since they were opened: run the command again";
  std::filesystem::resize_file(path, 0);
  CHECK(message() == changed);
  std::filesystem::resize_file(path, sound.size());
  std::filesystem::last_write_time(path,
                                   std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  CHECK(message() == changed);
  CHECK(open_cached(9, folder.path().string()).reads == 9);
}

TEST_CASE("A cache that is no file of this user's is refused") {
  constexpr uid_t kNobody = 65534;
  const test::TemporaryFolder folder;
  const std::string path = folder.file("abc.images");
  const auto message = [&] { return message_of<UserError>([&] { open_cached(9, folder.path().string()); }); };
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(message() == path + ": it is not a regular file, but decoded images are stored there: remove it");
  std::filesystem::remove(path);
  CHECK(message() == "(nothing was thrown)");
  if (::chown(path.c_str(), kNobody, static_cast<gid_t>(-1)) != 0)
    return;  // who is not root has no other's file
  CHECK(message() == path + ": it belongs to user 65534, so its images may differ: set another data.cache");
}

TEST_CASE("What cannot be cached is refused: a source in memory, a folder that cannot be made") {
  const test::TemporaryFolder folder;
  auto in_memory = std::make_unique<CountedImages>(3);
  in_memory->print.clear();
  CHECK(message_of<UserError>([&] { cache_decoded(std::move(in_memory), {folder.path().string(), 1}); }) ==
        "counted: its pixels are already in memory: remove data.cache");
  write_file_atomically(folder.file("taken"), std::string_view("x"));
  CHECK_THAT(message_of<UserError>([&] { open_cached(3, folder.file("taken/cache")); }),
             REWIRE_CATCH_CONTAINS(folder.file("taken")));
}

}  // namespace
}  // namespace rewire::runtime

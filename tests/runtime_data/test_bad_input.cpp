// Images at the limits of their formats, mutated ones, and data that is wrong or goes away while it is read.
#include <sys/fsuid.h>
#include <unistd.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <tuple>

#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/loader.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/io/files.h"
#include "runtime/io/safetensors.h"
#include "tests/runtime_data/image_batches.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime::bad_input_test {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using FileBytes = std::vector<std::byte>;

const TensorMap& images_of_pillow() {
  static const TensorMap tensors =
      read_safetensors(std::string(REWIRE_GOLDENS) + "/images.safetensors").tensors;
  return tensors;
}

FileBytes file_called(const std::string& name) {
  const auto bytes = images_of_pillow().at(name + ".bytes").bytes();
  return {bytes.begin(), bytes.end()};
}

std::string verdict_on(const FileBytes& file, std::vector<std::uint8_t>& pixels) {
  return message_of<UserError>([&] { decode_image(file, "f", 3, pixels); });
}

// --- Mutated files -----------------------------------------------------------------------------------------------------

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_{seed, 0, ir::stream_hash("test.bad_input")} {}

  std::size_t below(std::size_t n) { return random_.bits(draw_++) % n; }

  /// Up to four bytes changed, moved, taken out or repeated, half of the time in the headers.
  FileBytes operator()(const FileBytes& file) {
    FileBytes made = file;
    for (std::size_t change = 1 + below(4); change > 0 && made.size() > 8; --change) {
      const std::size_t within = below(2) == 0 ? std::min<std::size_t>(made.size(), 700) : made.size();
      const std::size_t at = below(within), count = std::min(1 + below(40), made.size() - at);
      const auto begin = made.begin() + static_cast<std::ptrdiff_t>(at);
      const auto end = begin + static_cast<std::ptrdiff_t>(count);
      const std::size_t kind = below(5);
      if (kind == 0) {
        made.erase(begin, end);
      } else if (kind == 1) {
        const FileBytes piece(begin, end);
        made.insert(made.begin() + static_cast<std::ptrdiff_t>(below(made.size())), piece.begin(),
                    piece.end());
      } else if (kind == 2) {
        made[at] = below(2) == 0 ? std::byte{0} : std::byte{0xFF};
      } else if (kind == 3) {
        made[at] ^= static_cast<std::byte>(1U << below(8));
      } else {
        made[at] = static_cast<std::byte>(below(256));
      }
    }
    return made;
  }

 private:
  ir::PhiloxStream random_;
  std::uint64_t draw_ = 0;
};

/// Chunks of a PNG get their checksums anew, so that damage comes through to what reads them.
void renew_checksums(FileBytes& png) {
  for (std::size_t at = 8; at + 12 <= png.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | std::to_integer<std::size_t>(png[at + i]);
    if (length > png.size() - at - 12) return;
    const auto check = static_cast<std::uint32_t>(
        ::crc32(0, reinterpret_cast<const Bytef*>(png.data()) + at + 4, static_cast<uInt>(length + 4)));
    for (std::size_t i = 0; i < 4; ++i)
      png[at + 8 + length + i] = static_cast<std::byte>(check >> (24 - 8 * i));
    at += length + 12;
  }
}

TEST_CASE("Mutated JPEG and PNG files are read or refused in one line, with bounded memory") {
  constexpr std::uint64_t kMutatorSeed = 31;
  constexpr int kTrials = 40;
  Mutator mutated(kMutatorSeed);
  int jpegs = 0, pngs = 0, refused = 0, read = 0;
  for (const auto& [name, tensor] : images_of_pillow()) {
    if (!name.starts_with("file.") || !name.ends_with(".bytes")) continue;
    const FileBytes file = file_called(name.substr(0, name.size() - 6));
    const bool is_jpeg = name.starts_with("file.jpeg");
    for (int trial = 0; trial < kTrials; ++trial) {
      FileBytes bytes = mutated(file);
      if (!is_jpeg && trial % 2 == 0) renew_checksums(bytes);
      std::vector<std::uint8_t> pixels(5, 0xA5);
      const std::string message = verdict_on(bytes, pixels);
      CAPTURE(kMutatorSeed, name, trial, message);
      CHECK((message == "(nothing was thrown)" || message.starts_with("f: ")));
      CHECK(message.find_first_of("\n\r\x1b") == std::string::npos);
      // The most that a header may claim: 4096 pixels a byte (JPEG), 8 x 1032 (PNG of one bit); 3 channels.
      CHECK(pixels.capacity() <= 3 * 8 * 1032 * bytes.size());
      ++(is_jpeg ? jpegs : pngs);
      ++(message.starts_with("f: ") ? refused : read);
    }
  }
  CHECK(jpegs >= 300);
  CHECK(pngs >= 300);
  CHECK(refused >= 100);
  CHECK(read >= 100);
}

// --- Sizes at their limits ---------------------------------------------------------------------------------------------

TEST_CASE("An image of one pixel, and images as wide as their formats allow, take their pixels' memory") {
  std::vector<std::uint8_t> pixels;
  for (const std::int64_t channels : {1, 3}) {
    for (const auto& [name, width, tolerance] : std::vector<std::tuple<std::string, std::int64_t, int>>{
             {"wide.png", 30000, 0}, {"wide.jpeg", 65500, 3}}) {
      CAPTURE(name, channels);
      std::vector<std::uint8_t> wide(3, 0xA5);
      const ImageSize size = decode_image(file_called(name), name, channels, wide);
      REQUIRE(size.height == 2);
      REQUIRE(size.width == width);
      REQUIRE(std::ssize(wide) == channels * 2 * width);
      CHECK(std::ssize(wide) == static_cast<std::int64_t>(wide.capacity()));
      int worst = 0;
      for (std::size_t i = 0; i < wide.size(); ++i) {
        const auto x = static_cast<std::int64_t>(i) % width;
        worst = std::max(worst, std::abs(wide[i] - static_cast<int>(x / 257)));
      }
      CHECK(worst <= tolerance);
      // The last column alone.
      std::vector<std::uint8_t> part(wide.size(), 0xA5);
      decode_image(file_called(name), name, channels, part,
                   [](std::int64_t, std::int64_t columns) { return Box{1, columns - 1, 1, 1}; });
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        const auto last = static_cast<std::size_t>((channel * 2 + 2) * width - 1);
        CHECK(part[last] == wide[last]);
      }
    }
    const ImageSize one = decode_image(file_called("file.jpeg_one_pixel"), "f", channels, pixels);
    CHECK(one.height == 1);
    CHECK(one.width == 1);
    CHECK(std::ssize(pixels) == channels);
  }
}

/// A JPEG's or PNG's header that claims another size.
FileBytes claiming(FileBytes file, std::uint32_t height, std::uint32_t width) {
  const auto put = [&](std::size_t at, std::uint32_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      file.at(at + i) = static_cast<std::byte>(value >> (8 * (bytes - 1 - i)));
  };
  if (file[0] == std::byte{0x89}) {
    put(16, width, 4);
    put(20, height, 4);
    renew_checksums(file);
    return file;
  }
  for (std::size_t at = 2; at + 9 < file.size();) {
    const auto marker = std::to_integer<unsigned>(file[at + 1]);
    if (marker == 0xC0 || marker == 0xC2) {
      put(at + 5, height, 2);
      put(at + 7, width, 2);
      return file;
    }
    at += 2 + std::to_integer<std::size_t>(file[at + 2]) * 256 + std::to_integer<std::size_t>(file[at + 3]);
  }
  FAIL("no frame");
  return file;
}

TEST_CASE("A small file that claims 2^28 pixels costs no memory, one that claims more than it has little") {
  for (const char* name : {"file.jpeg_420", "file.jpeg_progressive", "file.jpeg_one_pixel", "file.png_rgb",
                           "file.png_one_bit", "file.png_adam7", "file.png_transparent_palette"}) {
    CAPTURE(name);
    const FileBytes file = file_called(name);
    std::vector<std::uint8_t> pixels;
    CHECK(verdict_on(claiming(file, 1U << 14, 1U << 14), pixels) ==
          "f: its header claims more pixels than " + std::to_string(file.size()) + " bytes can hold");
    CHECK(pixels.capacity() == 0);
    // Whatever it claims, it takes less than 64 MB.
    for (std::uint32_t side = 64; side <= 8192; side *= 2) {
      const std::string message = verdict_on(claiming(file, side, side - 1), pixels);
      // A JPEG that ends with its mark is read, and what it lacks is grey; a PNG is not.
      if (std::string_view(name).starts_with("file.png")) CHECK(message.starts_with("f: "));
      CHECK(message.find('\n') == std::string::npos);
      CHECK(pixels.capacity() < (std::size_t{1} << 26));
    }
  }
}

// --- Folders -----------------------------------------------------------------------------------------------------------

class Tree {
 public:
  explicit Tree(int images = 12) {
    for (int i = 0; i < images; ++i) {
      put("train/cat/" + std::to_string(100 + i) + ".png");
      put("train/dog/" + std::to_string(100 + i) + ".png");
    }
  }
  void put(const std::string& path) const {
    fs::create_directories((folder_.path() / path).parent_path());
    write_file_atomically(folder_.file(path), std::span<const std::byte>(file_called("file.png_rgb")));
  }
  std::string file(const std::string& path) const { return folder_.file(path); }
  std::unique_ptr<ImageSource> open() const {
    ir::Selection selection{"folder"};
    selection.set("path", folder_.path().string());
    return make_image_source(selection, {Split::train, {3, 8, 8}, 0});
  }
  std::string message() const {
    return message_of<UserError>([&] { open(); });
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_CASE("An image that vanishes while a Loader runs is named, by each further batch too, and threads end") {
  const Tree tree;
  const auto source = tree.open();
  const ImagePipeline pipeline(*source,
                               images_under({{"resize", std::string("bilinear")}}, {3, 8, 8}, true, 3));
  for (const int threads : {1, 3}) {
    CAPTURE(threads);
    tree.put("train/dog/104.png");
    LoaderOptions options;
    options.batch = 4;
    options.threads = threads;
    options.prefetch = 3;
    Loader loader(samples_of(pipeline), source->count(), with_rows(options, pipeline));
    Batch batch;
    for (int i = 0; i < 20; ++i) loader.next(batch);
    fs::remove(tree.file("train/dog/104.png"));
    // The batches that were ready still come; within two epochs each image was wanted.
    std::string message = "(nothing was thrown)";
    for (int i = 0; i < 12 + 3 && message == "(nothing was thrown)"; ++i)
      message = message_of<UserError>([&] { loader.next(batch); });
    CHECK_THAT(message, REWIRE_CATCH_CONTAINS(tree.file("train/dog/104.png")));
    CHECK_THAT(message, REWIRE_CATCH_CONTAINS("No such file or directory"));
    CHECK(message_of<UserError>([&] { loader.next(batch); }) == message);
  }
}

TEST_CASE("A file that is cut short, or is no image any more, while a Loader runs is named") {
  const Tree tree(2);
  const auto source = tree.open();
  const ImagePipeline pipeline(*source,
                               images_under({{"resize", std::string("bilinear")}}, {3, 8, 8}, false, 3));
  LoaderOptions options;
  options.batch = 4;
  options.training = false;
  options.prefetch = 1;
  const auto last_message = [&] {
    Loader loader(samples_of(pipeline), source->count(), with_rows(options, pipeline));
    Batch batch;
    return message_of<UserError>([&] { loader.next(batch); });
  };
  CHECK(last_message() == "(nothing was thrown)");
  const std::string file = tree.file("train/cat/101.png");
  fs::resize_file(file, 100);
  CHECK(last_message() == file + ": not a readable PNG: it ends too early");
  fs::resize_file(file, 0);
  CHECK(last_message() == file + ": the file is empty");
  fs::remove(file);
  fs::create_symlink("101.png", file);
  CHECK_THAT(last_message(), REWIRE_CATCH_CONTAINS(file));
  CHECK_THAT(last_message(), REWIRE_CATCH_CONTAINS("Too many levels of symbolic links"));
}

TEST_CASE("Classes that differ between train and test, or are empty, are told with their escapes") {
  const Tree tree(1);
  const std::string odd = "a\n\x1b[31mred";
  tree.put("val/cat/1.png");
  tree.put("val/" + odd + "/1.png");
  CHECK(tree.message() == tree.file("val/a\\x0a\\x1b[31mred") + ": " + tree.file("train") +
                              " has no folder of that class to train on: remove it, or rename one of them");
  fs::remove_all(tree.file("val"));
  fs::create_directories(tree.file("train/" + odd));
  const std::string none = tree.file("train/a\\x0a\\x1b[31mred") +
                           ": this class has no JPEG or PNG file: remove it, or set data.allow_empty=true";
  CHECK(tree.message() == none);
  fs::create_directory_symlink("loop", tree.file("train/" + odd + "/loop"));
  CHECK(tree.message() == none);
}

TEST_CASE("A folder that may not be read is named") {
  constexpr int kNobody = 65534;
  const Tree tree(1);
  fs::permissions(tree.file("."), fs::perms::all);
  fs::permissions(tree.file("train"), fs::perms::all);
  fs::permissions(tree.file("train/dog"), fs::perms::none);
  // Root may read all: as nobody, this thread may not.
  const int before = ::setfsuid(kNobody);
  if (::setfsuid(static_cast<uid_t>(-1)) != kNobody && ::geteuid() == 0) {
    fs::permissions(tree.file("train/dog"), fs::perms::owner_all);
    WARN("root without the right to be another user reads every folder");
    return;
  }
  const std::string message = tree.message();
  ::setfsuid(static_cast<uid_t>(before));
  fs::permissions(tree.file("train/dog"), fs::perms::owner_all);
  CHECK(message == tree.file("train/dog") + ": Permission denied");
  CHECK(tree.message() == "(nothing was thrown)");
}

// --- CIFAR -------------------------------------------------------------------------------------------------------------

TEST_CASE("A CIFAR file that is a byte short, or a byte long, is named") {
  const test::TemporaryFolder folder;
  const std::string records(2 * 3073, '\1');
  for (int i = 1; i <= 5; ++i)
    write_file_atomically(folder.file("data_batch_" + std::to_string(i) + ".bin"), records);
  const auto message = [&] {
    ir::Selection selection{"cifar"};
    selection.set("path", folder.path().string());
    return message_of<UserError>([&] { make_image_source(selection, {Split::train, {3, 32, 32}, 0}); });
  };
  CHECK(message() == "(nothing was thrown)");
  for (const std::size_t bytes : {records.size() - 1, records.size() + 1}) {
    write_file_atomically(folder.file("data_batch_4.bin"), (records + "x").substr(0, bytes));
    CHECK(message() ==
          folder.file("data_batch_4.bin") + ": " + std::to_string(bytes) +
              " bytes are not records of 3073 (1 of labels, 3 x 32 x 32 of pixels): download the file again");
  }
}

}  // namespace
}  // namespace rewire::runtime::bad_input_test

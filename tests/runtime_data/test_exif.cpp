// EXIF's orientation: found in JPEG and PNG files of either byte order, and applied as CIPA DC-008 says.
#include "runtime/data/vision/exif.h"

#include <algorithm>

#include "ir/philox.h"
#include "runtime/data/vision/png_file.h"
#include "runtime/data/vision/transform.h"
#include "tests/runtime_data/image_batches.h"
#include "tests/runtime_data/image_tree.h"
#include "tests/runtime_data/tar_text.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

std::string big_endian(std::uint32_t number, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(number >> 8 * i & 0xFF);
  return text;
}

/// A TIFF header of two fields, the second the orientation.
std::string tiff(int orientation, bool is_big_endian) {
  const auto number = [&](std::uint32_t value, int bytes) {
    std::string text = big_endian(value, bytes);
    if (!is_big_endian) std::ranges::reverse(text);
    return text;
  };
  return (is_big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) + number(2, 2) +  //
         number(0x010F, 2) + number(2, 2) + number(2, 4) + number(0, 4) +               // who made the camera
         number(0x0112, 2) + number(3, 2) + number(1, 4) +
         number(static_cast<std::uint32_t>(orientation), 2) + number(0, 2) + number(0, 4);
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> jpeg_with(const std::string& exif, const std::string& image = "jpeg_420") {
  const auto golden = test::golden_image(image);
  std::string file(reinterpret_cast<const char*>(golden.data()), golden.size());
  const std::string body = std::string("Exif\0\0", 6) + exif;
  return bytes_of(
      file.insert(2, "\xFF\xE1" + big_endian(static_cast<std::uint32_t>(body.size() + 2), 2) + body));
}

/// Before the end; a chunk's checksum is nobody's concern here.
std::vector<std::byte> png_with(const std::string& exif, const DrawnImage& image) {
  const std::vector<std::byte> plain = encode_png(image);
  std::string file(reinterpret_cast<const char*>(plain.data()), plain.size());
  return bytes_of(
      file.insert(33, big_endian(static_cast<std::uint32_t>(exif.size()), 4) + "eXIf" + exif + "sum!"));
}

TEST_CASE("Each orientation of EXIF turns the pixels as Pillow's exif_transpose does") {
  const DrawnImage stored{1, 2, 3, {1, 2, 3, 4, 5, 6}};
  struct Turned {
    std::int64_t height;
    std::vector<std::uint8_t> pixels;
  };
  const Turned turned[] = {{2, {1, 2, 3, 4, 5, 6}}, {2, {3, 2, 1, 6, 5, 4}}, {2, {6, 5, 4, 3, 2, 1}},
                           {2, {4, 5, 6, 1, 2, 3}}, {3, {1, 4, 2, 5, 3, 6}}, {3, {4, 1, 5, 2, 6, 3}},
                           {3, {6, 3, 5, 2, 4, 1}}, {3, {3, 6, 2, 5, 1, 4}}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    const auto file = png_with(tiff(orientation, orientation % 2 == 0), stored);
    CHECK(exif_orientation(file) == orientation);
    std::vector<std::uint8_t> pixels;
    const ImageSize size = decode_upright(file, "f", 1, pixels, nullptr, orientation);
    CHECK(size.height == turned[orientation - 1].height);
    CHECK(pixels == turned[orientation - 1].pixels);
  }
}

TEST_CASE("The orientation is found in JPEG files, and damaged EXIF gives none") {
  for (int orientation = 1; orientation <= 8; ++orientation)
    CHECK(exif_orientation(jpeg_with(tiff(orientation, orientation % 2 == 1))) == orientation);
  CHECK(exif_orientation(jpeg_with(tiff(9, true))) == 1);
  CHECK(exif_orientation(jpeg_with("neither II nor MM")) == 1);
  CHECK(exif_orientation(test::golden_image("jpeg_420")) == 1);
  CHECK(exif_orientation(test::golden_image("png_rgb")) == 1);
  const std::string whole = tiff(6, false);
  const std::size_t end_of_field = whole.size() - 4;
  for (std::size_t size = 0; size < end_of_field; ++size)
    CHECK(exif_orientation(jpeg_with(whole.substr(0, size))) == 1);
  const auto file = jpeg_with(whole);
  for (std::size_t size = 0; size < 60; ++size)
    exif_orientation(std::vector<std::byte>(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)));
}

TEST_CASE("A part of a turned image has the pixels that it has in the whole") {
  const ir::PhiloxStream random{23, 0, ir::stream_hash("test.exif")};
  std::uint64_t draw = 0;
  const auto file = jpeg_with("");
  for (int orientation = 2; orientation <= 8; ++orientation) {
    std::vector<std::uint8_t> whole, part;
    const ImageSize size = decode_upright(file, "f", 3, whole, nullptr, orientation);
    CHECK(size.height == (orientation < 5 ? 37 : 53));
    for (int trial = 0; trial < 20; ++trial) {
      const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random.bits(draw++)) % n; };
      Box box{below(size.height), below(size.width), 0, 0};
      box.height = 1 + below(size.height - box.top);
      box.width = 1 + below(size.width - box.left);
      decode_upright(file, "f", 3, part, [&](std::int64_t, std::int64_t) { return box; }, orientation);
      bool same = true;
      for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
        for (std::int64_t x = box.left; x < box.left + box.width; ++x) {
          const auto at = static_cast<std::size_t>(y * size.width + x);
          same = same && part[at] == whole[at];
        }
      }
      CAPTURE(orientation, trial);
      CHECK(same);
    }
  }
}

TEST_CASE("data.exif says whether photographs in folders and shards are turned") {
  const test::ImageFileTree tree;
  const auto photograph = jpeg_with(tiff(6, true));
  const std::string text(reinterpret_cast<const char*>(photograph.data()), photograph.size());
  tree.write("train/a/x.jpg", text);
  tree.write("train-0.tar", test::tar_sample("x", text, "0") + test::tar_end());
  for (const char* format : {"folder", "shards"}) {
    CAPTURE(format);
    ReadBuffer buffer;
    const auto ignoring = tree.open(format),
               applying = tree.open(format, Split::train, 3, {{"exif", std::string("apply")}});
    const StoredImage as_stored = ignoring->decode(0, buffer, nullptr);
    CHECK(as_stored.height == 37);
    CHECK(as_stored.orientation == 6);
    CHECK_FALSE(as_stored.is_upright);
    const StoredImage upright = applying->decode(0, buffer, nullptr);
    CHECK(upright.height == 53);
    CHECK(upright.width == 37);
    CHECK(upright.orientation == 6);
    CHECK(upright.is_upright);
    CHECK(ignoring->fingerprint() != applying->fingerprint());
  }
}

TEST_CASE("Without resize, images of the network's size pass and the first other one is named") {
  const test::ImageFileTree tree;
  const DrawnImage fits{3, 2, 4, std::vector<std::uint8_t>(24, 51)},
      other{3, 4, 2, std::vector<std::uint8_t>(24, 51)};
  for (const auto& [name, image] : {std::pair{"a", &fits}, {"b", &other}})
    tree.write(std::string("train/c/") + name + ".png", encode_png(*image));
  const auto source = tree.open("folder");
  const ImagePipeline pipeline(*source, images_under({}, {3, 2, 4}, false, 0));
  UnreadableSamples unreadable;
  for (UnreadableSamples* skipped : {static_cast<UnreadableSamples*>(nullptr), &unreadable}) {
    const auto sample = samples_of(pipeline, {skipped, true});
    std::vector<float> pixels(24);
    std::int64_t label = -1;
    const std::span<std::byte> row[] = {std::as_writable_bytes(std::span(pixels)),
                                        std::as_writable_bytes(std::span(&label, 1))};
    CHECK(sample({0, 0, 0}, row));
    CHECK(label == 0);
    CHECK(pixels == std::vector<float>(24, 51.0F / 255));
    CHECK(test::message_of<UserError>([&] { sample({0, 1, 0}, row); }) ==
          tree.file("train/c/b.png") +
              ": 4 x 2 pixels (height x width), but 2 x 4 are needed: set transforms.resize, and "
              "transforms.crop_pct=1 unless evaluation should crop the centre");
  }
  CHECK(unreadable.count() == 0);
}

}  // namespace
}  // namespace rewire::runtime

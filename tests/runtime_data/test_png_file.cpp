// PNG files that are written, read back; and grids of images.
#include "runtime/data/vision/png_file.h"

#include <algorithm>
#include <cstring>

#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/data/vision/colour_ops.h"
#include "runtime/data/vision/contact_sheet.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/data/vision/resample.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

DrawnImage noise_image(std::int64_t channels, std::int64_t height, std::int64_t width) {
  const ir::PhiloxStream random{7, 0, ir::stream_hash("test.png_file")};
  DrawnImage image{channels, height, width, {}};
  for (std::int64_t i = 0; i < channels * height * width; ++i)
    image.pixels.push_back(static_cast<std::uint8_t>(random.bits(static_cast<std::uint64_t>(i))));
  return image;
}

/// The names of the chunks, which follow eight bytes of signature: length, name, content, checksum.
std::vector<std::string> chunks_of(const std::vector<std::byte>& file) {
  std::vector<std::string> names;
  for (std::size_t at = 8; at + 12 <= file.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | std::to_integer<std::size_t>(file[at + i]);
    const std::string name(reinterpret_cast<const char*>(file.data()) + at + 4, 4);
    if (names.empty() || names.back() != name) names.push_back(name);
    at += 12 + length;
  }
  return names;
}

TEST_CASE("A PNG that is written has the pixels, in grey and in colour, and nothing else") {
  const ImageSize sizes[] = {{1, 1}, {7, 13}, {64, 3}, {1, 257}, {301, 299}};
  for (const std::int64_t channels : {1, 3}) {
    for (const ImageSize& size : sizes) {
      CAPTURE(channels, size.height, size.width);
      const DrawnImage image = noise_image(channels, size.height, size.width);
      const std::vector<std::byte> file = encode_png(image);
      CHECK(chunks_of(file) == std::vector<std::string>{"IHDR", "IDAT", "IEND"});
      CHECK(encode_png(image) == file);
      std::vector<std::uint8_t> pixels(5, 99);
      const ImageSize read = decode_image(file, "f", channels, pixels);
      CHECK(read.height == size.height);
      CHECK(read.width == size.width);
      CHECK(pixels == image.pixels);
    }
  }
}

TEST_CASE("What is no image is not written as a PNG") {
  CHECK(test::message_of<InternalError>([] { encode_png({2, 1, 1, {0, 0}}); }) == "a PNG of 2 x 1 x 1");
  CHECK(test::message_of<InternalError>([] { encode_png({3, 0, 4, {}}); }) == "a PNG of 3 x 0 x 4");
  CHECK(test::message_of<InternalError>([] { encode_png({1, 2, 2, {0, 0, 0}}); }) == "a PNG of 1 x 2 x 2");
}

std::uint8_t sheet_pixel(const DrawnImage& sheet, std::int64_t channel, std::int64_t y, std::int64_t x) {
  return sheet.pixels[static_cast<std::size_t>((channel * sheet.height + y) * sheet.width + x)];
}

TEST_CASE(
    "A small image is enlarged by a whole number and stands in the middle of its cell, grey around it") {
  const std::int64_t cell_height = 7, cell_width = 9, gap = 2;
  ContactSheet cells({2, 3, cell_height, cell_width, 3, gap});
  const DrawnImage image = noise_image(3, 3, 4);
  cells.put(1, 2, image.pixels, 3, 3, 4);
  const DrawnImage& sheet = cells.image();
  REQUIRE(sheet.height == 2 * 7 + 3 * 2);
  REQUIRE(sheet.width == 3 * 9 + 4 * 2);
  // Twice as large: 6 x 8 in a cell of 7 x 9, whose corner is (2 + 9, 2 + 22).
  bool same = true;
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < sheet.height; ++y) {
      for (std::int64_t x = 0; x < sheet.width; ++x) {
        const std::int64_t row = y - 11, column = x - 24;
        const bool inside = row >= 0 && row < 6 && column >= 0 && column < 8;
        const std::uint8_t wanted =
            inside ? image.pixels[static_cast<std::size_t>((c * 3 + row / 2) * 4 + column / 2)] : 128;
        same = same && sheet_pixel(sheet, c, y, x) == wanted;
      }
    }
  }
  CHECK(same);
}

TEST_CASE("A larger image is scaled down in its proportions") {
  const ImageSize sizes[] = {{40, 61}, {200, 3}, {11, 400}, {12, 17}};
  for (const ImageSize& size : sizes) {
    CAPTURE(size.height, size.width);
    const DrawnImage image = noise_image(1, size.height, size.width);
    ContactSheet cells({1, 1, 11, 17, 1, 1});
    cells.put(0, 0, image.pixels, 1, size.height, size.width);
    const double share =
        std::min(11.0 / static_cast<double>(size.height), 17.0 / static_cast<double>(size.width));
    const auto part = [&](std::int64_t extent) {
      return std::max<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(extent) * share + 0.5), 1);
    };
    const std::int64_t height = part(size.height), width = part(size.width);
    std::vector<std::uint8_t> wanted(static_cast<std::size_t>(height * width), 77);
    resample(image.pixels, size.height, size.width,
             {{0, 0, size.height, size.width}, height, width, {0, 0, height, width}}, Filter::bilinear,
             wanted);
    const std::int64_t top = 1 + (11 - height) / 2, left = 1 + (17 - width) / 2;
    bool same = true;
    for (std::int64_t y = 0; y < 13; ++y) {
      for (std::int64_t x = 0; x < 19; ++x) {
        const bool inside = y >= top && y < top + height && x >= left && x < left + width;
        const std::uint8_t pixel =
            inside ? wanted[static_cast<std::size_t>((y - top) * width + x - left)] : 128;
        same = same && sheet_pixel(cells.image(), 0, y, x) == pixel;
      }
    }
    CHECK(same);
  }
}

TEST_CASE("A sheet shows images of any number of channels") {
  const std::vector<std::uint8_t> pixels = {200, 10, 90, 31};
  const auto shown = [&](std::int64_t of_sheet, std::int64_t of_image) {
    ContactSheet cells({1, 1, 1, 1, of_sheet, 0});
    cells.put(0, 0, std::span(pixels).first(static_cast<std::size_t>(of_image)), of_image, 1, 1);
    return cells.image().pixels;
  };
  using Bytes = std::vector<std::uint8_t>;
  CHECK(shown(3, 1) == Bytes{200, 200, 200});
  CHECK(shown(3, 2) == Bytes{200, 200, 200});
  CHECK(shown(3, 3) == Bytes{200, 10, 90});
  CHECK(shown(3, 4) == Bytes{200, 10, 90});
  CHECK(shown(1, 1) == Bytes{200});
  CHECK(shown(1, 3) == Bytes{luma(200, 10, 90)});
}

TEST_CASE("A sheet of more pixels than an image may have is refused before memory is asked for") {
  CHECK(test::message_of<UserError>([] { ContactSheet({200, 8, 1'000'000, 1'000'000, 3, 4}); }) ==
        "a sheet of 200000804 x 8000036 pixels is more than the 268435456 that an image may have: draw fewer "
        "images");
}

}  // namespace
}  // namespace rewire::runtime

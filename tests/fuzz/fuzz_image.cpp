// The readers of JPEG and PNG files on any bytes: pixels of the size that they tell, the same each time, or one
// line.
#include "runtime/data/vision/image_file.h"
#include "tests/fuzz/fuzz_support.h"

namespace {

using namespace rewire;

struct Decoded {
  runtime::ImageSize size;
  std::vector<std::uint8_t> pixels;
};

bool read(std::span<const std::byte> file, std::int64_t channels, Decoded& decoded) {
  return test::accepted(
      [&] { decoded.size = runtime::decode_image(file, "input", channels, decoded.pixels); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  Decoded colour, again, grey;
  const bool good = read(file, 3, colour);
  test::require(read(file, 1, grey) == good);
  if (!good) return 0;
  test::require(read(file, 3, again) && again.pixels == colour.pixels);
  // A part that the bytes choose has the pixels of the whole.
  const std::int64_t height = colour.size.height, width = colour.size.width;
  const std::int64_t top = data[size - 1] % height, left = data[size - 2] % width;
  const runtime::Box box{top, left, 1 + data[size / 2] % (height - top), 1 + data[size / 3] % (width - left)};
  std::vector<std::uint8_t> part;
  test::require(test::accepted([&] {
    runtime::decode_image(file, "input", 3, part, [&](std::int64_t, std::int64_t) { return box; });
  }));
  const auto plane = static_cast<std::size_t>(colour.size.height * colour.size.width);
  test::require(plane > 0 && colour.pixels.size() == 3 * plane && grey.pixels.size() == plane);
  for (std::int64_t y = top; y < top + box.height; ++y) {
    for (std::int64_t x = left; x < left + box.width; ++x) {
      const auto at = static_cast<std::size_t>(y * width + x);
      test::require(part[at] == colour.pixels[at] && part[at + plane] == colour.pixels[at + plane]);
    }
  }
  return 0;
}

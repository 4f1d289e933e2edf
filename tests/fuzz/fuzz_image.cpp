// The readers of JPEG and PNG files on any bytes: pixels of the size that they tell, the same each time, or one
// line.
#include "runtime/data/image_file.h"
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
  const auto plane = static_cast<std::size_t>(colour.size.height * colour.size.width);
  test::require(plane > 0 && colour.pixels.size() == 3 * plane && grey.pixels.size() == plane);
  return 0;
}

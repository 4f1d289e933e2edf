// JPEG and PNG files against what Pillow reads of them, and damaged ones.
#include <zlib.h>

#include <cstdlib>
#include <cstring>

#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/io/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::message_of;

const TensorMap& goldens() {
  static const TensorMap tensors =
      read_safetensors(std::string(REWIRE_GOLDENS) + "/images.safetensors").tensors;
  return tensors;
}

/// Without ".bytes": those of a kind, "file." has Pillow's pixels too.
std::vector<std::string> files(const std::string& kind = "file.") {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : goldens()) {
    if (name.starts_with(kind) && name.ends_with(".bytes")) names.push_back(name.substr(0, name.size() - 6));
  }
  return names;
}

TEST_CASE("JPEG and PNG files have the pixels that Pillow reads, in colour and in grey") {
  REQUIRE(files().size() == 23);
  for (const std::string& file : files()) {
    for (const std::int64_t channels : {1, 3}) {
      CAPTURE(file, channels);
      const HostTensor& expected = goldens().at(file + (channels == 1 ? ".grey" : ".rgb"));
      std::vector<std::uint8_t> pixels(7, 99);
      const ImageSize size = decode_image(goldens().at(file + ".bytes").bytes(), "f", channels, pixels);
      REQUIRE(ir::Shape{channels, size.height, size.width} == expected.type().shape);
      const auto wanted = expected.as<std::uint8_t>();
      REQUIRE(pixels.size() == wanted.size());
      int worst = 0;
      for (std::size_t i = 0; i < pixels.size(); ++i)
        worst = std::max(worst, std::abs(pixels[i] - wanted[i]));
      // Another libjpeg may round a product otherwise.
      CHECK(worst <= (file.find("jpeg") == std::string::npos ? 0 : 1));
    }
  }
}

TEST_CASE("A part of an image has the pixels that it has in the whole, whatever lies around it") {
  const ir::PhiloxStream random{19, 0, ir::stream_hash("test.image_file")};
  std::uint64_t draw = 0;
  std::vector<std::string> all = files(), large = files("large.");
  REQUIRE(large.size() == 5);
  all.insert(all.end(), large.begin(), large.end());
  for (const std::string& file : all) {
    const auto bytes = goldens().at(file + ".bytes").bytes();
    std::vector<std::uint8_t> whole, part;
    const ImageSize size = decode_image(bytes, "f", 3, whole);
    for (int trial = 0; trial < 50; ++trial) {
      const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random.bits(draw++)) % n; };
      Box box{below(size.height), below(size.width), 0, 0};
      box.height = 1 + below(size.height - box.top);
      box.width = 1 + below(size.width - box.left);
      part.assign(whole.size(), 0x55);
      decode_image(bytes, "f", 3, part, [&](std::int64_t, std::int64_t) { return box; });
      bool same = true;
      for (std::int64_t c = 0; c < 3; ++c) {
        for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
          for (std::int64_t x = box.left; x < box.left + box.width; ++x) {
            const auto at = static_cast<std::size_t>((c * size.height + y) * size.width + x);
            same = same && part[at] == whole[at];
          }
        }
      }
      CAPTURE(file, trial, box.top, box.left, box.height, box.width);
      CHECK(same);
    }
  }
}

std::string verdict(std::span<const std::byte> file) {
  const std::vector<std::byte> exact(file.begin(), file.end());  // one byte too far is seen by a sanitizer
  std::vector<std::uint8_t> pixels;
  return message_of<UserError>([&] { decode_image(exact, "f", 3, pixels); });
}

TEST_CASE("A file cut short at any byte is refused") {
  for (const std::string& file : files()) {
    const auto whole = goldens().at(file + ".bytes").bytes();
    // A JPEG's last two bytes say that it ends.
    const std::size_t spare = file.find("jpeg") == std::string::npos ? 0 : 2;
    for (std::size_t size = 0; size + spare < whole.size(); size += 1 + size / 40) {
      CAPTURE(file, size);
      CHECK(verdict(whole.first(size)).starts_with("f: "));
    }
    CHECK(verdict(whole) == "(nothing was thrown)");
  }
}

TEST_CASE("Damaged images are refused in one line, or read") {
  const ir::PhiloxStream random{18, 0, ir::stream_hash("test.image_file")};
  std::uint64_t draw = 0;
  for (const std::string& file : files()) {
    const auto whole = goldens().at(file + ".bytes").bytes();
    for (int trial = 0; trial < 60; ++trial) {
      std::vector<std::byte> bytes(whole.begin(), whole.end());
      for (int change = 0; change < 3; ++change) {
        // Half of the damage goes to the headers.
        const std::size_t within = trial % 2 == 0 ? std::min<std::size_t>(bytes.size(), 64) : bytes.size();
        bytes[random.bits(draw) % within] = static_cast<std::byte>(random.bits(draw + 1));
        draw += 2;
      }
      CAPTURE(file, trial);
      const std::string message = verdict(bytes);
      CHECK((message == "(nothing was thrown)" || message.starts_with("f: ")));
      CHECK(message.find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("What is no image says so") {
  const auto text = [](std::string_view bytes) { return verdict(std::as_bytes(std::span(bytes))); };
  CHECK(text("") == "f: the file is empty");
  CHECK(text("GIF89a") == "f: neither JPEG nor PNG");
  CHECK(text("\xFF\xD8\xFF") == "f: not a readable JPEG: Premature end of JPEG file");
  std::vector<std::uint8_t> pixels;
  CHECK(message_of<UserError>([&] { decode_image({}, "a\nb.png", 3, pixels); }) ==
        "a\\x0ab.png: the file is empty");
}

TEST_CASE("A size that a header merely claims is refused before memory is asked for") {
  const auto png = goldens().at("file.png_rgb.bytes").bytes();
  std::vector<std::byte> bytes(png.begin(), png.end());
  // IHDR: width and height of 30,000, and its checksum.
  const unsigned char claim[] = {0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30};
  std::memcpy(bytes.data() + 16, claim, sizeof claim);
  const auto write_check = [&] {
    const auto check =
        static_cast<std::uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()) + 12, 17));
    for (int i = 0; i < 4; ++i)
      bytes[static_cast<std::size_t>(29 + i)] = static_cast<std::byte>(check >> (24 - 8 * i));
  };
  write_check();
  CHECK(verdict(bytes) == "f: 30000 x 30000 pixels are more than the 268435456 that an image may have");
  // 8,000 x 8,000, of which the file can hold no row.
  for (const std::size_t at : {18, 22}) {
    bytes[at] = std::byte{0x1F};
    bytes[at + 1] = std::byte{0x40};
  }
  write_check();
  CHECK(verdict(bytes) ==
        "f: its header claims more pixels than " + std::to_string(bytes.size()) + " bytes can hold");
}

TEST_CASE("What a name says of a file's format") {
  for (const char* name : {"a.jpg", "b.JPEG", "c.d.Png", "d.jfif", "e.JPE"}) CHECK(is_image_name(name));
  for (const char* name : {"jpg", "a.jpg.txt", "a.gif", ""}) CHECK_FALSE(is_image_name(name));
  for (const char* name : {"a.gif", "b.AVIF", "c.heic", "d.jp2", "e.WebP", "f.tif"})
    CHECK(is_other_image_name(name));
  for (const char* name : {"a.jpg", "b.txt", "gif", ""}) CHECK_FALSE(is_other_image_name(name));
  CHECK(suffix_of("a.b.TXT") == "txt");
  for (const char* name : {"a", "a.", "a.5x", "a.longer", "a.j g"}) CHECK(suffix_of(name).empty());
}

/// A progressive JPEG whose last scan comes again and again, without data of its own.
std::vector<std::byte> with_empty_scans(int scans) {
  const auto golden = goldens().at("file.jpeg_progressive.bytes").bytes();
  const std::string_view bytes(reinterpret_cast<const char*>(golden.data()), golden.size());
  const std::size_t scan = bytes.rfind("\xFF\xDA");
  const std::string_view header = bytes.substr(scan, 2 + static_cast<unsigned char>(bytes[scan + 3]));
  std::string file(bytes.substr(0, bytes.size() - 2));
  for (int i = 0; i < scans; ++i) file += header;
  file += "\xFF\xD9";
  const auto all = std::as_bytes(std::span(file));
  return {all.begin(), all.end()};
}

TEST_CASE("A JPEG of more scans than any encoder writes is refused") {
  CHECK(verdict(with_empty_scans(20)) == "(nothing was thrown)");
  CHECK(verdict(with_empty_scans(480)) ==
        "f: not a readable JPEG: it has more than 64 scans, each a pass over all its pixels");
}

}  // namespace
}  // namespace rewire::runtime

// EXIF is a TIFF header in a JPEG's segment APP1 or a PNG's chunk eXIf (CIPA DC-008). The orientation
// is a field of its first directory. Pixel (y, x) of the turned image comes from a pixel of the stored
// one. Its row and column are exchanged (orientations 5 to 8), then counted from the other end (rows:
// 3, 4, 6, 7; columns: 2, 3, 7, 8).
#include "runtime/data/vision/exif.h"

#include <algorithm>
#include <utility>

namespace rewire::runtime {
namespace {

constexpr int kUpright = 1, kOrientations = 8;

/// Reads numbers from bytes; 0 beyond their end.
class Numbers {
 public:
  Numbers(std::span<const std::byte> bytes, bool is_big_endian)
      : bytes_(bytes), is_big_endian_(is_big_endian) {}

  std::uint64_t at(std::uint64_t place, std::size_t size) const {
    if (place > bytes_.size() || size > bytes_.size() - place) return 0;
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t from = is_big_endian_ ? i : size - 1 - i;
      number = number << 8 | std::to_integer<std::uint64_t>(bytes_[static_cast<std::size_t>(place) + from]);
    }
    return number;
  }

 private:
  std::span<const std::byte> bytes_;
  bool is_big_endian_;
};

bool has_at(std::span<const std::byte> bytes, std::size_t place, std::string_view text) {
  if (place > bytes.size() || text.size() > bytes.size() - place) return false;
  return std::ranges::equal(bytes.subspan(place, text.size()), std::as_bytes(std::span(text)));
}

/// The field 0x0112 of the first directory: one number of type BYTE, SHORT or LONG.
int orientation_in_tiff(std::span<const std::byte> tiff) {
  const bool is_big_endian = has_at(tiff, 0, std::string_view("MM\0*", 4));
  if (!is_big_endian && !has_at(tiff, 0, std::string_view("II*\0", 4))) return kUpright;
  constexpr std::uint64_t kField = 12, kOrientation = 0x0112;
  const Numbers numbers(tiff, is_big_endian);
  const std::uint64_t directory = numbers.at(4, 4), count = numbers.at(directory, 2);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t field = directory + 2 + i * kField;
    if (field + kField > tiff.size()) break;
    if (numbers.at(field, 2) != kOrientation) continue;
    const std::uint64_t type = numbers.at(field + 2, 2);
    const std::size_t bytes = type == 1 ? 1 : type == 3 ? 2 : type == 4 ? 4 : 0;
    const std::uint64_t value = numbers.at(field + 4, 4) == 1 ? numbers.at(field + 8, bytes) : 0;
    return value >= kUpright && value <= kOrientations ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

constexpr std::string_view kExifName("Exif\0\0", 6);

int orientation_in_jpeg(std::span<const std::byte> file) {
  const Numbers numbers(file, true);
  for (std::size_t at = 2; at + 4 <= file.size() && numbers.at(at, 1) == 0xFF;) {
    const std::uint64_t marker = numbers.at(at + 1, 1);
    if (marker == 0xFF) {  // padding
      ++at;
      continue;
    }
    const auto length = static_cast<std::size_t>(numbers.at(at + 2, 2));
    if (marker == 0xDA || marker == 0xD9 || length < 2 || length > file.size() - at - 2) break;
    const std::span<const std::byte> segment = file.subspan(at + 4, length - 2);
    if (marker == 0xE1 && has_at(segment, 0, kExifName))
      return orientation_in_tiff(segment.subspan(kExifName.size()));
    at += 2 + length;
  }
  return kUpright;
}

int orientation_in_png(std::span<const std::byte> file) {
  constexpr std::size_t kSignature = 8, kAround = 12;  // of a chunk: length, type and checksum
  const Numbers numbers(file, true);
  for (std::size_t at = kSignature; at + kAround <= file.size();) {
    const auto length = static_cast<std::size_t>(numbers.at(at, 4));
    if (length > file.size() - at - kAround) break;
    if (has_at(file, at + 4, "eXIf")) return orientation_in_tiff(file.subspan(at + 8, length));
    at += length + kAround;
  }
  return kUpright;
}

/// Maps the pixels of a turned image to those of the stored one.
struct Turn {
  bool exchanges, rows_from_end, columns_from_end;

  explicit Turn(int orientation)
      : exchanges(orientation >= 5),
        rows_from_end(orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7),
        columns_from_end(orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) {}

  ImageSize size(const ImageSize& stored) const {
    return exchanges ? ImageSize{stored.width, stored.height} : stored;
  }
  /// Returns the box of the stored image that a box of the turned one comes from.
  Box stored_box(Box box, const ImageSize& stored) const {
    if (exchanges) {
      std::swap(box.top, box.left);
      std::swap(box.height, box.width);
    }
    if (rows_from_end) box.top = stored.height - box.top - box.height;
    if (columns_from_end) box.left = stored.width - box.left - box.width;
    return box;
  }
  void run(const std::uint8_t* from, const ImageSize& stored, std::uint8_t* to) const {
    const ImageSize turned = size(stored);
    const std::int64_t down = exchanges ? 1 : stored.width, right = exchanges ? stored.width : 1;
    const std::int64_t row_step = (exchanges ? columns_from_end : rows_from_end) ? -down : down;
    const std::int64_t column_step = (exchanges ? rows_from_end : columns_from_end) ? -right : right;
    const std::int64_t first =
        (rows_from_end ? (stored.height - 1) * stored.width : 0) + (columns_from_end ? stored.width - 1 : 0);
    for (std::int64_t y = 0; y < turned.height; ++y) {
      for (std::int64_t x = 0; x < turned.width; ++x)
        to[y * turned.width + x] = from[first + y * row_step + x * column_step];
    }
  }
};

}  // namespace

int exif_orientation(std::span<const std::byte> file) {
  if (!begins_as_image(file)) return kUpright;
  return file[0] == std::byte{0xFF} ? orientation_in_jpeg(file) : orientation_in_png(file);
}

ImageSize decode_upright(std::span<const std::byte> file, std::string_view name, std::int64_t channels,
                         std::vector<std::uint8_t>& pixels, const BoxFunction& needed, int orientation) {
  if (orientation == kUpright) return decode_image(file, name, channels, pixels, needed);
  const Turn turn(orientation);
  BoxFunction stored_needed;
  if (needed) {
    stored_needed = [&](std::int64_t height, std::int64_t width) {
      const ImageSize stored{height, width}, turned = turn.size(stored);
      return turn.stored_box(needed(turned.height, turned.width), stored);
    };
  }
  std::vector<std::uint8_t> as_stored;
  const ImageSize stored = decode_image(file, name, channels, as_stored, stored_needed);
  const std::int64_t plane = stored.height * stored.width;
  pixels.resize(as_stored.size());
  for (std::int64_t channel = 0; channel < channels; ++channel)
    turn.run(as_stored.data() + channel * plane, stored, pixels.data() + channel * plane);
  return turn.size(stored);
}

}  // namespace rewire::runtime

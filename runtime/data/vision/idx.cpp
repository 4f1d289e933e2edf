// Reads IDX arrays.
#include "runtime/data/vision/idx.h"

#include <algorithm>
#include <array>

#include "ir/error.h"
#include "runtime/data/vision/byte_source.h"

namespace rewire::runtime {
namespace {

using Word = std::array<std::uint8_t, 4>;

Word read_word(ByteSource& source, std::string_view what, const std::string& file_name) {
  Word word{};
  if (source.read(std::as_writable_bytes(std::span(word))) != word.size()) {
    user_error("{}: truncated: the file ends within {}", file_name, what);
  }
  return word;
}

/// Refuses extents of 0: an empty set is of no use.
std::vector<std::int64_t> read_shape(ByteSource& source, const std::string& file_name) {
  const Word magic = read_word(source, "the magic number", file_name);
  constexpr std::uint8_t kUnsignedByte = 0x08;
  if (magic[0] != 0 || magic[1] != 0 || magic[3] == 0) {
    user_error("{}: not an IDX file: its magic number is {:02x}{:02x}{:02x}{:02x}", file_name, magic[0],
               magic[1], magic[2], magic[3]);
  }
  if (magic[2] != kUnsignedByte) {
    user_error("{}: IDX elements have the type 0x{:02x}; only bytes (0x08) are supported", file_name,
               magic[2]);
  }
  std::vector<std::int64_t> shape;
  for (int axis = 0; axis < magic[3]; ++axis) {
    std::int64_t extent = 0;
    for (const std::uint8_t byte : read_word(source, "the extents", file_name)) extent = extent << 8 | byte;
    if (extent == 0) user_error("{}: axis {} has extent 0", file_name, axis);
    shape.push_back(extent);
  }
  return shape;
}

/// Returns the element count, after a check that the source can hold it.
std::size_t checked_count(const std::vector<std::int64_t>& shape, const ByteSource& source,
                          const std::string& file_name) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count)) {
      user_error("{}: its extents multiply to more than 2^64 elements", file_name);
    }
  }
  if (count > source.at_most()) {
    user_error("{}: truncated: the header claims {} elements, but {}{} bytes follow", file_name, count,
               source.is_gzip() ? "at most " : "", source.at_most());
  }
  return static_cast<std::size_t>(count);
}

}  // namespace

IdxArray parse_idx(std::span<const std::byte> file, const std::string& file_name) {
  ByteSource source(file, file_name);
  IdxArray array{read_shape(source, file_name), {}};
  const std::size_t count = checked_count(array.shape, source, file_name);
  array.data.reserve(count);  // address space only; pages come with the bytes
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  while (array.data.size() < count) {
    const std::size_t start = array.data.size();
    array.data.resize(std::min(count, start + kPiece));
    const std::span<std::uint8_t> piece = std::span(array.data).subspan(start);
    if (const std::size_t got = source.read(std::as_writable_bytes(piece)); got != piece.size()) {
      user_error("{}: truncated: the header claims {} elements, the file holds {}", file_name, count,
                 start + got);
    }
  }
  std::array<std::byte, 1> more{};
  if (source.read(more) != 0) {
    user_error("{}: more bytes follow the {} elements that the header claims", file_name, count);
  }
  return array;
}

}  // namespace rewire::runtime

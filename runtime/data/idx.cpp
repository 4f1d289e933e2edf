// Reads IDX arrays, and the pair of them that is a labelled image set.
#include "runtime/data/idx.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "ir/error.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/dataset.h"
#include "runtime/io/files.h"

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

/// Extents of 0 are refused: an empty set is no use to anyone.
std::vector<std::int64_t> read_shape(ByteSource& source, const std::string& file_name) {
  const Word magic = read_word(source, "the magic number", file_name);
  constexpr std::uint8_t kUnsignedByte = 0x08;
  if (magic[0] != 0 || magic[1] != 0 || magic[3] == 0) {
    user_error("{}: not an IDX file: its magic number is {:02x}{:02x}{:02x}{:02x}", file_name, magic[0],
               magic[1], magic[2], magic[3]);
  }
  if (magic[2] != kUnsignedByte) {
    user_error("{}: IDX elements of type 0x{:02x}; only bytes (0x08) are read", file_name, magic[2]);
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

/// The element count, once it is sure that the source may hold it.
std::size_t checked_count(const std::vector<std::int64_t>& shape, const ByteSource& source,
                          const std::string& file_name) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count)) {
      user_error("{}: its extents multiply to more than 2^64 elements", file_name);
    }
  }
  if (count > source.at_most()) {
    user_error("{}: truncated: the header claims {} elements, and {}{} bytes follow", file_name, count,
               source.is_gzip() ? "at most " : "", source.at_most());
  }
  return static_cast<std::size_t>(count);
}

/// FOLDER/STEM or FOLDER/STEM.gz.
std::string find_file(const std::string& folder, const std::string& stem) {
  const std::string plain = (std::filesystem::path(folder) / stem).string();
  for (const std::string& path : {plain, plain + ".gz"}) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  const std::string hint = folder == kFashionMnistFolder ? "install the Debian package dataset-fashion-mnist"
                                                         : "set data.path to the folder that holds it";
  user_error("cannot find {} or {}.gz; {}", plain, stem, hint);
}

struct NamedArray {
  std::string path;
  IdxArray array;
};

NamedArray read_array(const std::string& folder, const std::string& stem, std::size_t rank) {
  const std::string path = find_file(folder, stem);
  IdxArray array = parse_idx(read_file(path), path);
  if (array.shape.size() != rank) {
    user_error("{}: rank {}, where {} is expected", path, array.shape.size(), rank);
  }
  return {path, std::move(array)};
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
    user_error("{}: bytes follow the {} elements that the header claims", file_name, count);
  }
  return array;
}

Dataset load_idx_dataset(const std::string& folder, Split split) {
  const std::string stem = split == Split::train ? "train" : "t10k";
  NamedArray images = read_array(folder, stem + "-images-idx3-ubyte", 3);
  const NamedArray labels = read_array(folder, stem + "-labels-idx1-ubyte", 1);
  const std::vector<std::int64_t>& shape = images.array.shape;
  if (shape[0] != labels.array.shape[0]) {
    user_error("{} holds {} images, but {} holds {} labels", images.path, shape[0], labels.path,
               labels.array.shape[0]);
  }
  return {labels.path,
          shape[0],
          1,
          shape[1],
          shape[2],
          std::move(images.array.data),
          {labels.array.data.begin(), labels.array.data.end()}};
}

}  // namespace rewire::runtime

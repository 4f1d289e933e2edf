#include "runtime/data/text/token_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/source.h"
#include "runtime/io/files.h"
#include "runtime/io/npy.h"

namespace rewire::runtime {
namespace {

struct TypeRow {
  TokenType type;
  std::string_view name, descr;  // data.dtype's, NumPy's
  std::size_t bytes;
};
constexpr std::array<TypeRow, 7> kTokenTypes = {{{TokenType::u8, "uint8", "|u1", 1},
                                                 {TokenType::u16, "uint16", "<u2", 2},
                                                 {TokenType::u32, "uint32", "<u4", 4},
                                                 {TokenType::u64, "uint64", "<u8", 8},
                                                 {TokenType::i16, "int16", "<i2", 2},
                                                 {TokenType::i32, "int32", "<i4", 4},
                                                 {TokenType::i64, "int64", "<i8", 8}}};

const TypeRow& row_of(TokenType type) {
  return *std::ranges::find(kTokenTypes, type, &TypeRow::type);
}

/// Converts elements to ids. Returns the place of the first that is not in [0, limit), or their number.
template <class Element>
std::size_t convert_ids(const std::byte* from, std::span<std::int32_t> out, std::int64_t limit) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Element value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    if (std::cmp_less(value, 0) || std::cmp_greater_equal(value, limit)) return i;
    out[i] = static_cast<std::int32_t>(value);
  }
  return out.size();
}

std::size_t convert_ids(TokenType type, const std::byte* from, std::span<std::int32_t> out,
                        std::int64_t limit) {
  switch (type) {
    case TokenType::u8:
      return convert_ids<std::uint8_t>(from, out, limit);
    case TokenType::u16:
      return convert_ids<std::uint16_t>(from, out, limit);
    case TokenType::u32:
      return convert_ids<std::uint32_t>(from, out, limit);
    case TokenType::u64:
      return convert_ids<std::uint64_t>(from, out, limit);
    case TokenType::i16:
      return convert_ids<std::int16_t>(from, out, limit);
    case TokenType::i32:
      return convert_ids<std::int32_t>(from, out, limit);
    case TokenType::i64:
      return convert_ids<std::int64_t>(from, out, limit);
  }
  internal_error("a token type of no row");
}

std::string text_of(TokenType type, const std::byte* from) {
  const auto value = [from]<class Element>(Element element) {
    std::memcpy(&element, from, sizeof element);
    return std::to_string(element);
  };
  switch (type) {
    case TokenType::u8:
      return value(std::uint8_t{});
    case TokenType::u16:
      return value(std::uint16_t{});
    case TokenType::u32:
      return value(std::uint32_t{});
    case TokenType::u64:
      return value(std::uint64_t{});
    case TokenType::i16:
      return value(std::int16_t{});
    case TokenType::i32:
      return value(std::int32_t{});
    case TokenType::i64:
      return value(std::int64_t{});
  }
  internal_error("a token type of no row");
}

bool is_npy(std::span<const std::byte> bytes) {
  constexpr std::string_view kNpyMagic = "\x93NUMPY";
  return bytes.size() >= kNpyMagic.size() &&
         std::memcmp(bytes.data(), kNpyMagic.data(), kNpyMagic.size()) == 0;
}

std::int32_t word_at(std::span<const std::byte> bytes, std::size_t index) {
  std::int32_t word = 0;
  std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
  return word;
}

}  // namespace

std::string_view name_of(TokenType type) {
  return row_of(type).name;
}

std::size_t bytes_of(TokenType type) {
  return row_of(type).bytes;
}

TokenType token_type(std::string_view name) {
  const auto* const found = std::ranges::find(kTokenTypes, name, &TypeRow::name);
  if (found == kTokenTypes.end()) internal_error("no token type is named {}", name);
  return found->type;
}

TokenType narrowest_type(std::int64_t vocabulary) {
  constexpr std::int64_t kMost = 65536;
  return vocabulary <= kMost ? TokenType::u16 : TokenType::u32;
}

TokenFile::TokenFile(const std::string& path, TokenType raw)
    : file_(std::make_unique<const MappedFile>(path)), name_(visible(path)), type_(raw) {
  const std::span<const std::byte> bytes = file_->bytes();
  if (bytes.empty()) user_error("{}: the file is empty", name_);
  if (is_npy(bytes) || name_.ends_with(".npy")) {
    set_npy();
  } else if (bytes.size() >= sizeof kShardMagic && word_at(bytes, 0) == kShardMagic) {
    set_shard();
  } else {
    const std::size_t element = bytes_of(type_);
    if (bytes.size() % element != 0) {
      user_error("{}: {} bytes are not a whole number of {} tokens: set data.dtype to the file's type", name_,
                 bytes.size(), name_of(type_));
    }
    count_ = static_cast<std::int64_t>(bytes.size() / element);
  }
}

TokenFile::TokenFile(std::unique_ptr<const MappedFile> file, std::string name, TokenType type,
                     std::size_t first, std::int64_t count)
    : file_(std::move(file)), name_(std::move(name)), type_(type), first_(first), count_(count) {}

TokenFile::TokenFile(std::string name, std::vector<std::int32_t> tokens)
    : memory_(std::move(tokens)),
      name_(std::move(name)),
      type_(TokenType::i32),
      count_(std::ssize(memory_)) {}

void TokenFile::set_npy() {
  const std::span<const std::byte> bytes = file_->bytes();
  const NpyHeader header = parse_npy_header(bytes, name_);
  const auto* const found = std::ranges::find(kTokenTypes, header.descr, &TypeRow::descr);
  if (found == kTokenTypes.end() || header.shape.size() != 1) {
    user_error("{}: '{}' [{}]: tokens must be integers in one dimension", name_, printable(header.descr),
               fmt::join(header.shape, ", "));
  }
  type_ = found->type;
  first_ = header.first;
  count_ = header.shape.front();
  const std::size_t there = bytes.size() - first_;
  if (there % found->bytes != 0 || std::cmp_not_equal(there / found->bytes, count_))
    user_error("{}: the header says {} tokens of {} bytes, but {} bytes follow it", name_, count_,
               found->bytes, there);
}

void TokenFile::set_shard() {
  constexpr std::size_t kHeader = kShardHeaderWords * sizeof(std::int32_t);
  const std::span<const std::byte> bytes = file_->bytes();
  if (bytes.size() < kHeader)
    user_error("{}: truncated: its header has {} bytes, but the file only {}", name_, kHeader, bytes.size());
  if (word_at(bytes, 1) != kShardVersion)
    user_error("{}: version {} of the token format is not supported, only version {}", name_,
               word_at(bytes, 1), kShardVersion);
  type_ = TokenType::u16;
  first_ = kHeader;
  count_ = word_at(bytes, 2);
  const std::size_t there = bytes.size() - kHeader;
  if (std::cmp_not_equal(there, count_ * 2)) {
    user_error(
        "{}: the header says {} tokens, but {} bytes of uint16 follow it, which are {}: the file is "
        "truncated or damaged",
        name_, count_, there, there / 2);
  }
  if (count_ == 0) user_error("{}: it has no tokens", name_);
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> out, std::int64_t limit) const {
  if (file_ && !file_->is_unchanged())
    throw DataError(
        fmt::format("{}: the file has changed since it was opened: run the command again", name_));
  const std::byte* const data =
      file_ ? file_->bytes().data() + first_ : reinterpret_cast<const std::byte*>(memory_.data());
  const std::byte* const from = data + static_cast<std::size_t>(first) * bytes_of(type_);
  const std::size_t good = convert_ids(type_, from, out, limit);
  if (good == out.size()) return;
  const std::string id = text_of(type_, from + good * bytes_of(type_));
  const std::string place =
      fmt::format("{}: token {} is {}", name_, first + static_cast<std::int64_t>(good), id);
  if (id.starts_with('-')) throw DataError(fmt::format("{}: ids begin at 0", place));
  if (limit == kAnyToken) throw DataError(fmt::format("{}: ids must be below 2^31: check data.dtype", place));
  throw DataError(
      fmt::format("{}, but the ids of the vocabulary are 0 to {}: check data.dtype, or set model.vocab",
                  place, limit - 1));
}

}  // namespace rewire::runtime

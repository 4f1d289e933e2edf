// Files of token ids, memory-mapped, in three forms:
//
//   nanoGPT         little-endian integers and nothing else; the element type comes from data.dtype
//   modded-nanogpt  256 int32 (20240520, version 1, number of tokens, zeros), then uint16 ids; also llm.c's
//   NumPy           .npy, one-dimensional, of integers
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/mapped_file.h"

namespace rewire::runtime {

inline constexpr std::int32_t kShardMagic = 20240520, kShardVersion = 1;
inline constexpr std::size_t kShardHeaderWords = 256;  // int32

/// The element type of a file; the values are the names that data.dtype takes, and NumPy's.
enum class TokenType : std::uint8_t { u8, u16, u32, u64, i16, i32, i64 };
/// "uint16"
std::string_view name_of(TokenType type);
std::size_t bytes_of(TokenType type);
/// Returns the type of a name. Throws InternalError if there is none.
TokenType token_type(std::string_view name);
/// The type for ids below `vocabulary`: uint16, else uint32.
TokenType narrowest_type(std::int64_t vocabulary);

/// Ids are below this if a network sets no bound.
inline constexpr std::int64_t kAnyToken = std::int64_t{1} << 31;

/// One file of tokens. Several threads read it at once.
class TokenFile {
 public:
  /// `raw`: the element type of a file without a header. Throws UserError, one line that names the file, if it
  /// is empty, not a whole number of tokens, or not as its header says.
  TokenFile(const std::string& path, TokenType raw);
  /// The `count` tokens of a file from byte `first` on.
  TokenFile(std::unique_ptr<const MappedFile> file, std::string name, TokenType type, std::size_t first,
            std::int64_t count);
  /// Tokens in memory.
  TokenFile(std::string name, std::vector<std::int32_t> tokens);

  /// The path, for messages.
  const std::string& name() const { return name_; }
  TokenType type() const { return type_; }
  std::int64_t count() const { return count_; }
  /// All bytes of the file; none of one in memory.
  std::span<const std::byte> file_bytes() const {
    return file_ ? file_->bytes() : std::span<const std::byte>();
  }
  /// Reads the tokens from `first` on. Throws DataError with their place if one is not in [0, limit), or if
  /// the file has changed since it was opened.
  void read(std::int64_t first, std::span<std::int32_t> out, std::int64_t limit = kAnyToken) const;

 private:
  void set_npy();
  void set_shard();

  std::unique_ptr<const MappedFile> file_;  // null: in memory
  std::vector<std::int32_t> memory_;
  std::string name_;
  TokenType type_ = TokenType::u16;
  std::size_t first_ = 0;  // byte of the file
  std::int64_t count_ = 0;
};

}  // namespace rewire::runtime

// Byte-pair encoding of words: the pair of neighbours with the lowest rank is joined, the leftmost of equal
// ones first, until no pair has a rank (Sennrich et al. 2016).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/data/text/tokenizer.h"
#include "runtime/data/text/tokenizers/word_pattern.h"

namespace rewire::runtime {

/// What a vocabulary file says.
struct BytePairs {
  struct Join {
    std::int32_t rank = 0, id = 0;
  };
  std::vector<std::string> tokens;                // bytes by id; "" where an id is no token of text
  std::array<std::int32_t, 256> bytes{};          // the id of each byte
  std::unordered_map<std::uint64_t, Join> joins;  // by left id << 32 | right id
  std::int32_t end = -1;
  /// A word that is a token is not cut, even if joins would not make it (tiktoken).
  bool whole_words = false;
  std::string digest;  // of the files

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
};

/// GPT-2's byte-level BPE. Words are cut by WordPattern; text must be UTF-8.
class ByteLevelTokenizer final : public Tokenizer {
 public:
  explicit ByteLevelTokenizer(BytePairs pairs);
  std::int64_t vocabulary() const override { return std::ssize(pairs_.tokens); }
  std::int32_t end() const override { return pairs_.end; }
  void encode(std::string_view text, std::string_view name, const TakeTokens& take) const override;
  std::string_view text_of(std::int32_t id) const override;
  std::string digest() const override { return pairs_.digest; }

 private:
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const;

  BytePairs pairs_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // by the bytes in pairs_
  WordPattern words_;
};

}  // namespace rewire::runtime

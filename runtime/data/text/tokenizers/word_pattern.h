// The pattern by which GPT-2 cuts text into words before byte-pair encoding (Radford et al. 2019, encoder.py):
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// \s is Unicode's White_Space. Every character is in one word.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace rewire::runtime {

class WordPattern {
 public:
  WordPattern();
  ~WordPattern();
  /// Calls `take` with each word of UTF-8 text, in order. Several threads may call it at once.
  void for_each(std::string_view text, const std::function<void(std::string_view word)>& take) const;

 private:
  struct Code;
  std::unique_ptr<const Code> code_;
};

}  // namespace rewire::runtime

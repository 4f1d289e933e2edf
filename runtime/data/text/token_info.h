// What a split of tokens holds, for `rewire data info`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/text/token_source.h"

namespace rewire::runtime {

struct TokenCount {
  std::int32_t id = 0;
  std::int64_t count = 0;
  std::string text;  // what the tokenizer says it is; "" if that is nothing, or unknown
};

struct TokenFacts {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;   // 0: without a separator, their ends are unknown
  std::int64_t bytes = 0;       // of the text that the tokens are; 0: without a tokenizer, unknown
  std::int64_t vocabulary = 0;  // the tokenizer's; 0: unknown
  std::int64_t seen = 0;        // different ids
  std::int32_t least = 0, greatest = 0;
  std::vector<TokenCount> frequent;  // at most ten, the most frequent first
  std::vector<std::string> types;    // of the files, each once: "uint16"; none if the tokens are a text's
  std::string sha256;                // of the text, or of all files, one after another
  std::int64_t text_bytes = 0,
               text_documents = 0;  // of both splits together; 0: unknown
};

/// Reads all tokens. Throws DataError on an id that the tokenizer does not have.
TokenFacts examine_tokens(const TokenSource& source);

}  // namespace rewire::runtime

// Tokens of a text, kept in a file so that it is tokenised once.
//
// The file FOLDER/KEY.tokens holds the ids, uint16 or uint32; their number (u64); BLAKE3 of all before, 64
// hexadecimal digits; and the 8 bytes of kTokensMagic. Numbers are little-endian.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/data/text/token_file.h"
#include "runtime/data/text/tokenizer.h"

namespace rewire::runtime {

inline constexpr char kTokensMagic[] = "rewiret1";  // without its NUL

struct TokenCacheOptions {
  std::string folder;           // is made if it is missing; "": none, so that tokens stay in memory
  bool is_asked = false;        // data.cache names the folder: a folder that cannot be written is an error
  std::string key;              // digest of all that the ids depend on
  std::int64_t vocabulary = 0;  // ids are below it
  std::string name;             // the text's, for messages and for the tokens
};

/// Returns the tokens that `make` passes on, from the file if there is one. A damaged file is written again; a
/// file of another user is refused. A folder of Rewire's own that cannot be written is a warning.
std::shared_ptr<const TokenFile> cached_tokens(const TokenCacheOptions& options,
                                               const std::function<void(const TakeTokens&)>& make);

}  // namespace rewire::runtime

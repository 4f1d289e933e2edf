// Tokenizers turn UTF-8 text into token ids and back. data.tokenizer names one:
//
//   bytes                256 ids, one a byte, and 256 for the end of a document
//   gpt2:FOLDER          GPT-2's byte-level BPE: vocab.json or encoder.json, and merges.txt or vocab.bpe
//   tiktoken:FILE        byte-level BPE with GPT-2's pattern: a line of base64 and a rank for each token
//   sentencepiece:FILE   a SentencePiece model
//
// Ids equal those of Hugging Face tokenizers, tiktoken (encode_ordinary) and SentencePiece, except that text
// never yields a special token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ir/schema.h"

namespace rewire::runtime {

/// Receives ids piece by piece.
using TakeTokens = std::function<void(std::span<const std::int32_t> ids)>;

/// Several threads use one tokenizer at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Ids are below it.
  virtual std::int64_t vocabulary() const = 0;
  /// The id that ends a document; -1: the vocabulary has none.
  virtual std::int32_t end() const = 0;
  /// Passes on the ids of a document, without end(). Throws UserError that begins with `name`, the document's,
  /// and has the byte's number if the text is not UTF-8; `bytes` accepts any text.
  virtual void encode(std::string_view text, std::string_view name, const TakeTokens& take) const = 0;
  /// The bytes of text that a token is; "" for end(), and for an id that is no token.
  virtual std::string_view text_of(std::int32_t id) const = 0;
  /// A digest of all that ids depend on.
  virtual std::string digest() const = 0;
};

/// Makes the tokenizer that data.tokenizer names. Throws UserError on an unknown kind and on a vocabulary that
/// cannot be read.
std::unique_ptr<const Tokenizer> make_tokenizer(const std::string& name);

/// Makes the key data.tokenizer.
ir::ParameterSpec tokenizer_parameter(std::string_view default_name, std::string_view doc);

/// Throws UserError with the first bad byte's number, counted from 0, unless `text` is UTF-8.
void require_utf8(std::string_view text, std::string_view name);

}  // namespace rewire::runtime

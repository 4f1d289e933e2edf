// Windows of a stream of tokens as samples of a language model: token t of a window is given, token t + 1 is
// its target.
//
//   tokens     i32 [T]  ids; 0 where the window is padded
//   targets    i32 [T]  the next ids; -1: no target (padding, the last token of a packed document)
//   bytes      f32 [1]  bytes of text of all targets, for bits per byte; 0 if there is no tokenizer
//   documents  i32 [T]  packed windows only: the document's number in the window; padding has the next number
//
// T is the extent of the field `tokens` that the network takes (model.context).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/data/source.h"
#include "runtime/data/text/token_stream.h"
#include "runtime/data/text/tokenizer.h"
#include "runtime/data/text/windows.h"

namespace rewire::runtime {

inline constexpr std::string_view kTokensField = "tokens", kTargetsField = "targets", kBytesField = "bytes",
                                  kDocumentsField = "documents";

/// A part of documents: [first, last) of them; of one document alone, its bytes [begin, end).
struct TextPart {
  std::int64_t first = 0, last = 0;
  std::int64_t begin = 0, end = 0;  // end - begin: the part's bytes
};

/// The text that tokens were made of.
struct TextFacts {
  std::string name, sha256;               // SHA-256 of the whole text
  std::int64_t documents = 0, bytes = 0;  // of the whole text
  TextPart part;                          // that became the tokens
};

struct TokenOptions {
  std::string name;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: unknown
  bool sequential = false;                     // an epoch takes the windows in order; else at random places
  bool pack = false;                           // whole documents; else windows of the stream
  std::int64_t windows = 0;                    // of a training epoch; 0: as many as lie side by side
  std::int64_t validation_windows = 0;         // read in an evaluation, from the first; 0: all
  std::int32_t separator = -1;                 // the id that separates documents; -1: none
  std::shared_ptr<const TextFacts> text = nullptr;  // null: the tokens came as they are
};

/// The keys that choose the windows, and the options that they set.
ir::Schema window_parameters();
void set_windows(TokenOptions& options, const ir::Attributes& values);

/// The tokens that a network asks for.
struct TokenContext {
  std::int64_t context = 0;     // T
  std::int64_t vocabulary = 0;  // ids are below it; 0: any
};
/// Converts a network's request. Throws UserError if it takes no tokens.
TokenContext token_context(const SourceContext& context);

class TokenSource final : public Source {
 public:
  /// Throws UserError if the stream has fewer tokens than a window of training, or than two, or if an epoch of a given
  /// number of windows would not draw them at random places.
  TokenSource(TokenStream stream, TokenOptions options, const SourceContext& context);

  std::string name() const override { return options_.name; }
  std::int64_t count() const override;
  std::vector<Field> fields() const override;
  /// Reads the window that evaluation sees: windows side by side, or packed ones.
  void read(std::int64_t index, Sample& sample) const override;
  /// Reads a whole window at a place drawn uniformly from (seed, epoch, number), as nanoGPT draws it; a packed
  /// window or one of a sequential order is read as evaluation sees it.
  void read_drawn(std::uint64_t seed, std::int64_t epoch, std::int64_t index, std::int64_t repeat,
                  Sample& sample) const;
  std::string sample_name(std::int64_t index) const override;
  std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const override;
  DataIdentity identity() const override;
  std::unique_ptr<Pipeline> pipeline(const PipelineContext& context) const override;

  const TokenStream& stream() const { return stream_; }
  const TokenOptions& options() const { return options_; }

 private:
  void read_pieces(std::span<const Piece> pieces, Sample& sample) const;

  TokenStream stream_;
  TokenOptions options_;
  TokenContext asked_;
  bool is_training_ = false;
  std::int64_t asked_windows_ = 0;  // of this split; 0: all
  StreamWindows windows_;
  std::optional<PackedWindows> packed_;
};

/// Takes `source` as tokens; null if its samples are others.
const TokenSource* tokens_of(const Source& source);

}  // namespace rewire::runtime

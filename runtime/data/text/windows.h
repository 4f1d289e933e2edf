// Which tokens of a stream are the positions of a window.
//
// A window of T positions is one or more pieces of the stream, one after another; positions after the last
// piece are padding. The target of a position is the next token of its piece, or -1 at the end of a piece
// that is the end of a document.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/text/token_stream.h"

namespace rewire::runtime {

struct Piece {
  std::int64_t first = 0;   // token of the stream
  std::int32_t length = 0;  // positions
  bool continues = true;    // the token after the last is its target
};

/// Windows side by side: window i has the positions [iT, (i + 1)T) of the stream's tokens but the last, so that
/// each token except the first is a target once. The last window may be shorter.
class StreamWindows {
 public:
  StreamWindows(std::int64_t tokens, std::int64_t context) : positions_(tokens - 1), context_(context) {}
  std::int64_t count() const { return (positions_ + context_ - 1) / context_; }
  Piece window(std::int64_t index) const;
  /// The number of places at which a whole window can begin.
  std::int64_t starts() const { return positions_ - context_ + 1; }

 private:
  std::int64_t positions_, context_;
};

/// The windows of whole documents: each takes documents in their order while they fit. A longer document
/// begins a window and fills as many as it needs; others follow its rest. Each token but a document's first is
/// a target once.
class PackedWindows {
 public:
  /// `separator` ends each document, or begins each if it is the stream's first token. Reads the whole
  /// stream.
  PackedWindows(const TokenStream& stream, std::int64_t context, std::int32_t separator);
  std::int64_t count() const { return std::ssize(begins_) - 1; }
  std::span<const Piece> window(std::int64_t index) const;

 private:
  void add_document(std::int64_t first, std::int64_t last);
  void add_piece(Piece piece);

  std::int64_t context_;
  std::vector<Piece> pieces_;
  std::vector<std::int64_t> begins_ = {0};  // the first piece of each window, and their number
  std::int64_t used_ = 0;                   // positions of the last window
};

/// Calls `take` with the tokens [first, last) of each document, in order; see PackedWindows.
void for_each_document(const TokenStream& stream, std::int32_t separator,
                       const std::function<void(std::int64_t first, std::int64_t last)>& take);

}  // namespace rewire::runtime

#include "runtime/data/text/windows.h"

#include <algorithm>
#include <limits>

namespace rewire::runtime {

Piece StreamWindows::window(std::int64_t index) const {
  const std::int64_t first = index * context_;
  return {first, static_cast<std::int32_t>(std::min(context_, positions_ - first))};
}

PackedWindows::PackedWindows(const TokenStream& stream, std::int64_t context, std::int32_t separator)
    : context_(context) {
  for_each_document(stream, separator,
                    [this](std::int64_t first, std::int64_t last) { add_document(first, last); });
  if (used_ > 0) begins_.push_back(std::ssize(pieces_));
}

void PackedWindows::add_document(std::int64_t first, std::int64_t last) {
  if (last - first < 2) return;  // it has no target
  if (used_ > 0 && last - first > context_ - used_) {
    begins_.push_back(std::ssize(pieces_));
    used_ = 0;
  }
  while (last - first > context_) {
    add_piece({first, static_cast<std::int32_t>(context_), true});
    first += context_;
  }
  if (last - first >= 2) add_piece({first, static_cast<std::int32_t>(last - first), false});
}

void PackedWindows::add_piece(Piece piece) {
  pieces_.push_back(piece);
  used_ += piece.length;
  if (used_ < context_) return;
  begins_.push_back(std::ssize(pieces_));
  used_ = 0;
}

std::span<const Piece> PackedWindows::window(std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index);
  return std::span(pieces_).subspan(static_cast<std::size_t>(begins_[at]),
                                    static_cast<std::size_t>(begins_[at + 1] - begins_[at]));
}

void for_each_document(const TokenStream& stream, std::int32_t separator,
                       const std::function<void(std::int64_t first, std::int64_t last)>& take) {
  std::int64_t at = 0, begin = 0;
  bool begins = false;  // a document with the separator
  stream.for_each([&](std::span<const std::int32_t> tokens) {
    if (at == 0 && !tokens.empty()) begins = tokens.front() == separator;
    for (const std::int32_t token : tokens) {
      const std::int64_t edge = begins ? at : at + 1;
      ++at;
      if (token != separator || edge == begin) continue;
      take(begin, edge);
      begin = edge;
    }
  });
  if (at > begin) take(begin, at);
}

}  // namespace rewire::runtime

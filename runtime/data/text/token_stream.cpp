#include "runtime/data/text/token_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "codegen/files/digest.h"

namespace rewire::runtime {

TokenStream::TokenStream(Files files) : files_(std::move(files)), starts_{0} {
  for (const auto& file : files_) starts_.push_back(starts_.back() + file->count());
  end_ = starts_.back();
}

TokenStream TokenStream::part(std::int64_t first, std::int64_t last) const {
  TokenStream part = *this;
  part.end_ = begin_ + last;
  part.begin_ = begin_ + first;
  return part;
}

void TokenStream::read(std::int64_t first, std::span<std::int32_t> out, std::int64_t limit) const {
  first += begin_;
  auto file = static_cast<std::size_t>(std::ranges::upper_bound(starts_, first) - starts_.begin()) - 1;
  for (; !out.empty(); ++file) {
    const std::size_t there = std::min(out.size(), static_cast<std::size_t>(starts_[file + 1] - first));
    files_[file]->read(first - starts_[file], out.first(there), limit);
    out = out.subspan(there);
    first += static_cast<std::int64_t>(there);
  }
}

void TokenStream::for_each(const std::function<void(std::span<const std::int32_t>)>& take,
                           std::int64_t limit) const {
  constexpr std::int64_t kPiece = std::int64_t{1} << 16;
  std::vector<std::int32_t> piece;
  for (std::int64_t at = 0; at < count(); at += kPiece) {
    piece.resize(static_cast<std::size_t>(std::min(kPiece, count() - at)));
    read(at, piece, limit);
    take(piece);
  }
}

std::string TokenStream::digest() const {
  constexpr std::int64_t kEnds = 4096;
  codegen::Digest digest;
  const auto add = [&digest](std::string_view text) { digest.update(std::as_bytes(std::span(text))); };
  std::vector<std::int32_t> ends;
  for (const auto& file : files_) {
    add(fmt::format("{}\t{}\n", std::filesystem::path(file->name()).filename().string(), file->count()));
    ends.resize(static_cast<std::size_t>(std::min(kEnds, file->count())));
    for (const std::int64_t first : {std::int64_t{0}, file->count() - std::ssize(ends)}) {
      file->read(first, ends);
      digest.update(std::as_bytes(std::span(ends)));
    }
  }
  add(fmt::format("{} to {}\n", begin_, end_));
  return digest.hex();
}

}  // namespace rewire::runtime

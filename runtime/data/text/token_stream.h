// Files of tokens as one stream, in the order of their names.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/text/token_file.h"

namespace rewire::runtime {

/// Copies share the files. Several threads read at once.
class TokenStream {
 public:
  using Files = std::vector<std::shared_ptr<const TokenFile>>;
  explicit TokenStream(Files files);

  std::int64_t count() const { return end_ - begin_; }
  const Files& files() const { return files_; }
  /// Returns the tokens [first, last) of this stream as a stream.
  TokenStream part(std::int64_t first, std::int64_t last) const;
  /// Reads the tokens from `first` on, across the ends of files; see TokenFile::read.
  void read(std::int64_t first, std::span<std::int32_t> out, std::int64_t limit = kAnyToken) const;
  /// Calls `take` with all tokens in order, piece by piece.
  void for_each(const std::function<void(std::span<const std::int32_t>)>& take,
                std::int64_t limit = kAnyToken) const;
  /// A digest by which a resumed run recognises the tokens: files' names without folders, their numbers of
  /// tokens, and the first and last tokens of each.
  std::string digest() const;

 private:
  Files files_;
  std::vector<std::int64_t> starts_;  // of each file, and the end of the last
  std::int64_t begin_ = 0, end_ = 0;
};

}  // namespace rewire::runtime

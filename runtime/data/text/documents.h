// Text as documents: one a file, or one a line of a .jsonl file, in the order of the files' paths.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

struct Document {
  std::string name;  // for messages: the path, and for .jsonl the line
  std::string_view text;
};

/// The documents of a path, which are read anew each time: the text may be larger than memory. Those without
/// text are left out, with one warning.
class Documents {
 public:
  /// `path`: a file, a folder with all in it but hidden files, or a shell pattern; "": the default text. Throws
  /// UserError if there is none, or no text in it.
  explicit Documents(const std::string& path);

  /// Calls `take` with each document in turn. Throws UserError naming a file that cannot be read or a line
  /// that is not {"text": "…"}.
  void for_each(const std::function<void(const Document&)>& take) const;

  /// The path, for messages.
  const std::string& name() const { return name_; }
  std::int64_t count() const { return std::ssize(sizes_); }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }  // of each, in bytes
  std::int64_t bytes() const { return bytes_; }
  /// SHA-256 of all documents' text, one after another.
  const std::string& sha256() const { return sha256_; }

 private:
  std::string name_;
  std::vector<std::string> files_;
  std::vector<std::int64_t> sizes_;
  std::int64_t bytes_ = 0;
  std::string sha256_;
};

/// The text that `data.format=text` reads without a path: the manual of Perl, as Debian's package perl-doc
/// installs it. Returns the folder of its .pod files. Throws UserError that says how to install it.
std::string default_text();

}  // namespace rewire::runtime

// Text beyond ASCII, on its way through toml++.
//
// toml++ (3.3 and 3.4) tests every character outside comments and one-line strings for white space. For most
// characters between U+00A1 and U+0499, and some others, that test has undefined behaviour; for private-use
// characters it never has. So each character beyond ASCII is replaced by a private-use one before toml++
// reads the text, and restored in its result.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rewire::runtime {

class BeyondAscii {
 public:
  /// Bytes that are not UTF-8, and a byte-order mark, stay unchanged; toml++ refuses the former. Throws
  /// UserError if the text has more different characters than there are private ones (6400, less those that
  /// its hexadecimal digits could spell).
  BeyondAscii(std::string_view text, std::string_view file_name);

  const std::string& text() const { return text_; }
  std::string restored(std::string_view text) const;
  /// Restores every key and string in the table.
  void restore(toml::table& table) const;

 private:
  void restore(toml::node& node) const;

  std::string text_;
  std::unordered_map<std::string, std::string> original_;  // of each private-use character, both as UTF-8
};

}  // namespace rewire::runtime

// Text beyond ASCII, on its way through toml++.
//
// toml++ (3.3 and 3.4) asks of every character outside comments and one-line strings whether it is white
// space, and for most characters between U+00A1 and U+0499, and some others, that question has undefined
// behaviour. A private-use character is always answered. So toml++ reads text in which each character beyond
// ASCII is swapped for a private-use one, and what it returns is swapped back.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rewire::runtime {

class BeyondAscii {
 public:
  /// Bytes that are no UTF-8 stay what they are, for toml++ to refuse, and so does a byte-order mark.
  /// UserError where the text has more different characters than there are private ones (6400, less those
  /// that its hexadecimal digits could spell).
  BeyondAscii(std::string_view text, std::string_view file_name);

  const std::string& text() const { return text_; }
  std::string restored(std::string_view text) const;
  /// Every key and string in it.
  void restore(toml::table& table) const;

 private:
  void restore(toml::node& node) const;

  std::string text_;
  std::unordered_map<std::string, std::string> original_;  // of each private-use character, both as UTF-8
};

}  // namespace rewire::runtime

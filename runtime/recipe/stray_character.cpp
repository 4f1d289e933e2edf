#include "runtime/recipe/stray_character.h"

#include <algorithm>

namespace rewire::runtime {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBeforeStrings = "\n=,.[{";

/// Walks over the text as TOML's strings and comments divide it.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  /// The position of the first stray character, or the text's size.
  std::size_t find() {
    char before = '\n';  // the last character that is no blank
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (!is_ascii(c)) break;
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      // Behind anything else, as in 0"text", toml++ does not take a quote for the begin of a string.
      const bool opens = (c == '"' || c == '\'') && kBeforeStrings.find(before) != std::string_view::npos;
      if (c != ' ' && c != '\t') before = c;
      if (!opens) {
        ++at_;
      } else if (!skip_string(c)) {
        break;
      }
    }
    return std::min(at_, text_.size());
  }

 private:
  static bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

  bool skip_string(char quote) {
    const char delimiter[] = {quote, quote, quote};
    const std::string_view three(delimiter, 3);
    if (text_.substr(at_).starts_with(three)) return skip_lines(three);
    skip_line(quote);
    return true;
  }

  /// To behind the closing delimiter, or to the end of the line where there is none.
  void skip_line(char delimiter) {
    for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      if (text_[at_] == delimiter) {
        ++at_;
        return;
      }
      if (delimiter == '"' && text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
    }
  }

  /// To behind the closing delimiter, before which two more such characters may stand as text; false at a
  /// character beyond ASCII.
  bool skip_lines(std::string_view delimiter) {
    for (at_ += delimiter.size(); at_ < text_.size(); ++at_) {
      if (text_.substr(at_).starts_with(delimiter)) {
        at_ += delimiter.size();
        for (int more = 0; more < 2 && at_ < text_.size() && text_[at_] == delimiter[0]; ++more) ++at_;
        return true;
      }
      if (!is_ascii(text_[at_])) return false;
      if (delimiter[0] == '"' && text_[at_] == '\\') {
        ++at_;
        if (at_ < text_.size() && !is_ascii(text_[at_])) return false;
      }
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<int> stray_character_line(std::string_view text) {
  const std::size_t at = Scanner(text).find();
  if (at == text.size()) return std::nullopt;
  return 1 + static_cast<int>(std::ranges::count(text.substr(0, at), '\n'));
}

}  // namespace rewire::runtime

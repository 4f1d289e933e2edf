#include "runtime/recipe/key_depth.h"

#include <algorithm>

namespace rewire::runtime {
namespace {

constexpr std::string_view kBeforeStrings = "\n=,.[{";
constexpr std::string_view kBetweenKeys = "\n=,[]{}";

/// Walks over TOML text and skips its strings and comments.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  std::optional<int> find() {
    char before = '\n';  // the last non-blank character
    int parts = 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      if (kBetweenKeys.find(c) != std::string_view::npos) parts = 1;
      if (c == '.' && ++parts > kMostKeyParts) {
        return 1 + static_cast<int>(std::ranges::count(text_.substr(0, at_), '\n'));
      }
      // After any other character, as in 0"text", toml++ does not treat a quote as the start of a string.
      const bool opens = (c == '"' || c == '\'') && kBeforeStrings.find(before) != std::string_view::npos;
      if (c != ' ' && c != '\t') before = c;
      if (opens) {
        skip_string(c);
      } else {
        ++at_;
      }
    }
    return std::nullopt;
  }

 private:
  void skip_string(char quote) {
    const char delimiter[] = {quote, quote, quote};
    const std::string_view three(delimiter, 3);
    if (text_.substr(at_).starts_with(three)) {
      skip_lines(three);
    } else {
      skip_line(quote);
    }
  }

  /// Moves past the closing delimiter, or to the end of the line if there is none.
  void skip_line(char delimiter) {
    for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      if (text_[at_] == delimiter) {
        ++at_;
        return;
      }
      if (delimiter == '"' && text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
    }
  }

  /// Moves past the closing delimiter. Up to two more of its characters may precede it as text.
  void skip_lines(std::string_view delimiter) {
    for (at_ += delimiter.size(); at_ < text_.size(); ++at_) {
      if (text_.substr(at_).starts_with(delimiter)) {
        at_ += delimiter.size();
        for (int more = 0; more < 2 && at_ < text_.size() && text_[at_] == delimiter[0]; ++more) ++at_;
        return;
      }
      if (delimiter[0] == '"' && text_[at_] == '\\') ++at_;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<int> line_of_deep_key(std::string_view text) {
  return Scanner(text).find();
}

}  // namespace rewire::runtime

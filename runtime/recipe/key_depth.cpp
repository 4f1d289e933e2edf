#include "runtime/recipe/key_depth.h"

#include <algorithm>

namespace rewire::runtime {
namespace {

constexpr std::string_view kBeforeStrings = "\n=,.[{";
constexpr std::string_view kBetweenKeys = "\n=,[]{}";

/// Walks over the text as TOML's strings and comments divide it.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  std::optional<int> find() {
    char before = '\n';  // the last character that is no blank
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
      // Behind anything else, as in 0"text", toml++ does not take a quote for the begin of a string.
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

  /// To behind the closing delimiter, before which two more such characters may stand as text.
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

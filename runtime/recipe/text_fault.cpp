#include "runtime/recipe/text_fault.h"

#include <algorithm>

namespace rewire::runtime {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBeforeStrings = "\n=,.[{";
constexpr std::string_view kBetweenKeys = "\n=,[]{}";
constexpr int kMostDots = 15;  // of one key

constexpr std::string_view kStray = "a character beyond ASCII stands outside comments and one-line strings";
constexpr std::string_view kDeep = "a key has more than 16 parts";

/// Walks over the text as TOML's strings and comments divide it.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  std::optional<TextFault> find() {
    char before = '\n';  // the last character that is no blank
    int dots = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (!is_ascii(c)) return fault(kStray);
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      if (kBetweenKeys.find(c) != std::string_view::npos) dots = 0;
      if (c == '.' && ++dots > kMostDots) return fault(kDeep);
      // Behind anything else, as in 0"text", toml++ does not take a quote for the begin of a string.
      const bool opens = (c == '"' || c == '\'') && kBeforeStrings.find(before) != std::string_view::npos;
      if (c != ' ' && c != '\t') before = c;
      if (!opens) {
        ++at_;
      } else if (!skip_string(c)) {
        return fault(kStray);
      }
    }
    return std::nullopt;
  }

 private:
  TextFault fault(std::string_view what) const {
    return {1 + static_cast<int>(std::ranges::count(text_.substr(0, at_), '\n')), what};
  }
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

std::optional<TextFault> text_fault(std::string_view text) {
  return Scanner(text).find();
}

}  // namespace rewire::runtime

#include "cli/colour.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace rewire::cli {
namespace {

constexpr std::string_view kPlain = "\x1b[0m", kBold = "\x1b[1m", kFaint = "\x1b[2m", kRed = "\x1b[31m",
                           kGreen = "\x1b[32m", kYellow = "\x1b[33m", kBlue = "\x1b[34m", kCyan = "\x1b[36m";

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

std::string_view comment_of(Syntax syntax) {
  if (syntax == Syntax::llvm) return ";";
  return syntax == Syntax::assembly ? "#" : "//";
}

/// Returns whether the word is a type, such as f32, bf16 or i64.
bool is_type(std::string_view word) {
  const std::size_t digits = word.find_first_of("0123456789");
  if (digits == std::string_view::npos) return false;
  const std::string_view kind = word.substr(0, digits), bits = word.substr(digits);
  return (kind == "f" || kind == "bf" || kind == "i" || kind == "u") && bits.size() <= 2 &&
         std::ranges::all_of(bits, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
}

/// Colours one line.
class Painter {
 public:
  Painter(std::string_view line, Syntax syntax) : line_(line), comment_(comment_of(syntax)) {}

  std::string paint() {
    while (at_ < line_.size()) {
      const std::string_view rest = line_.substr(at_);
      if (rest.starts_with(comment_) || rest.starts_with("loc(")) {
        take(rest.size(), kFaint);
      } else if (rest.front() == '"') {
        take(string_length(rest), kGreen);
      } else if (rest.front() == '%') {
        take(1 + word_length(rest.substr(1)), kCyan);
      } else if (rest.front() == '@') {
        take(1 + word_length(rest.substr(1)), kYellow);
      } else if (is_word(rest.front())) {
        take_word(rest.substr(0, word_length(rest)));
      } else {
        if (rest.front() != ' ' && rest.front() != '\t') is_op_ = rest.front() == '=';
        out_ += rest.front();
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  static std::size_t word_length(std::string_view text) {
    const auto end = std::ranges::find_if_not(text, is_word);
    return static_cast<std::size_t>(end - text.begin());
  }
  static std::size_t string_length(std::string_view text) {
    std::size_t end = 1;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text.size());
  }

  void take(std::size_t length, std::string_view colour) {
    if (!colour.empty()) out_ += colour;
    out_ += line_.substr(at_, length);
    if (!colour.empty()) out_ += kPlain;
    at_ += length;
    is_op_ = false;
  }

  /// The first word of a line, or the first after its '=', is the op.
  void take_word(std::string_view word) {
    if (is_type(word)) {
      std::size_t length = word.size();
      const std::string_view behind = line_.substr(at_ + length);
      if (behind.starts_with('[')) length += std::min(behind.find(']') + 1, behind.size());
      return take(length, kBlue);
    }
    take(word.size(), is_op_ ? kBold : std::string_view());
  }

  const std::string_view line_, comment_;
  std::size_t at_ = 0;
  bool is_op_ = true;
  std::string out_;
};

std::string painted(std::string_view line, Syntax syntax) {
  if (syntax != Syntax::diff) return Painter(line, syntax).paint();
  std::string_view colour;
  if (line.starts_with('+')) colour = kGreen;
  if (line.starts_with('-')) colour = kRed;
  if (line.starts_with("@@")) colour = kCyan;
  if (line.starts_with("+++") || line.starts_with("---")) colour = kBold;
  std::string out(colour);
  out += line;
  if (!colour.empty()) out += kPlain;
  return out;
}

}  // namespace

bool wants_colours(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char *off = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return ::isatty(STDOUT_FILENO) == 1 && !is_dumb && (off == nullptr || *off == '\0');
}

std::string coloured(std::string_view text, Syntax syntax) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += painted(text.substr(0, end), syntax);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace rewire::cli

#include "ir/text_lexer.h"

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "ir/printable.h"
#include "ir/text_error.h"

namespace rewire::ir {
namespace {

constexpr std::size_t kMaxLineShown = 160;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_character(char c) {
  return is_letter(c) || is_digit(c) || c == '.';
}
bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}
/// Returns the number of characters of a UTF-8 text.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// Returns the value of a hexadecimal digit, or -1 for any other character.
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string describe_character(char c) {
  if (is_control(c) || static_cast<unsigned char>(c) >= 0x80) {
    return fmt::format("unexpected byte 0x{:02x}", static_cast<unsigned char>(c));
  }
  return fmt::format("unexpected character '{}'", c);
}

}  // namespace

void SourceText::fail(std::size_t offset, std::string_view message) const {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const std::size_t newline = before.rfind('\n');
  const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::string_view lead = before.substr(line_start);
  const std::size_t column = 1 + columns(blanked(lead));

  // Shows a window of the line, so that a file of one huge line still gives a readable message.
  const std::size_t shown_start =
      line_start + (lead.size() > kMaxLineShown ? lead.size() - kMaxLineShown / 2 : 0);
  std::string_view shown = text.substr(shown_start);
  shown = shown.substr(0, std::min(shown.find('\n'), kMaxLineShown));
  // The line and the caret below it both have characters that are one column wide.
  const std::string caret(columns(blanked(text.substr(shown_start, offset - shown_start))), ' ');
  throw TextError(fmt::format("{}:{}:{}: {}\n{}\n{}^", visible(file_name), line, column, one_line(message),
                              blanked(shown), caret));
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), is_name_character);
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (; !text.empty(); text.remove_prefix(first_character(text).bytes.size())) {
    const TextCharacter character = first_character(text);
    if (character.code == '"' || character.code == '\\') {
      quoted += '\\';
      quoted += character.bytes;
    } else if (character.code == '\n') {
      quoted += "\\n";
    } else if (character.code == '\t') {
      quoted += "\\t";
    } else if (character.shown) {
      quoted += character.bytes;
    } else {
      for (const char byte : character.bytes)
        quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
  }
  return quoted + '"';
}

Token Lexer::take() {
  Token taken = std::move(token_);
  advance();
  return taken;
}

void Lexer::finish(TokenKind kind, std::size_t length) {
  token_.kind = kind;
  token_.text = source_.text.substr(position_, length);
  position_ += length;
}

void Lexer::skip_blank() {
  const std::string_view text = source_.text;
  while (position_ < text.size()) {
    const char c = text[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++position_;
    } else if (text.substr(position_, 2) == "//") {
      position_ = std::min(text.find('\n', position_), text.size());
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_blank();
  token_ = Token{};
  token_.offset = position_;
  token_.line = line_;
  if (position_ == source_.text.size()) return finish(TokenKind::end, 0);

  const std::string_view rest = source_.text.substr(position_);
  const char c = rest[0];
  if (is_letter(c)) return lex_identifier();
  if (c == '"') return lex_string();
  if (c == '%') return lex_name_after_sigil(TokenKind::value);
  if (c == '@') return lex_name_after_sigil(TokenKind::symbol);
  if (rest.substr(0, 2) == "->") return finish(TokenKind::arrow, 2);
  if (is_digit(c) || c == '-') return lex_number();
  if (std::string_view("{}()[],:=*").find(c) != std::string_view::npos) {
    return finish(TokenKind::punctuation, 1);
  }
  source_.fail(position_, describe_character(c));
}

void Lexer::lex_identifier() {
  std::size_t length = 1;
  const std::string_view rest = source_.text.substr(position_);
  while (length < rest.size() && is_name_character(rest[length])) ++length;
  finish(TokenKind::identifier, length);
  token_.decoded = token_.text;
}

void Lexer::lex_number() {
  const std::string_view rest = source_.text.substr(position_);
  std::size_t length = 1;
  while (length < rest.size()) {
    const char c = rest[length];
    const bool exponent_sign = (c == '-' || c == '+') && (rest[length - 1] == 'e' || rest[length - 1] == 'E');
    if (!is_name_character(c) && !exponent_sign) break;
    ++length;
  }
  finish(TokenKind::number, length);
}

void Lexer::lex_name_after_sigil(TokenKind kind) {
  const std::string_view rest = source_.text.substr(position_);
  if (rest.size() > 1 && rest[1] == '"') {
    const std::size_t offset = position_;
    ++position_;
    lex_string();
    token_.kind = kind;
    token_.text = source_.text.substr(offset, position_ - offset);
    return;
  }
  std::size_t length = 1;
  while (length < rest.size() && is_name_character(rest[length])) ++length;
  if (length == 1) source_.fail(position_, fmt::format("a name must follow '{}'", rest[0]));
  finish(kind, length);
  token_.decoded = token_.text.substr(1);
}

void Lexer::lex_string() {
  const std::string_view text = source_.text;
  const std::size_t start = position_++;
  while (true) {
    if (position_ >= text.size() || text[position_] == '\n') {
      source_.fail(start, "this string has no closing quote on its line");
    }
    const char c = text[position_++];
    if (c == '"') break;
    if (c != '\\') {
      token_.decoded += c;
      continue;
    }
    const char escape = position_ < text.size() ? text[position_] : '\0';
    if (escape == '"' || escape == '\\') {
      token_.decoded += escape;
    } else if (escape == 'n') {
      token_.decoded += '\n';
    } else if (escape == 't') {
      token_.decoded += '\t';
    } else if (escape == 'x' && position_ + 2 < text.size() && hex_digit(text[position_ + 1]) >= 0 &&
               hex_digit(text[position_ + 2]) >= 0) {
      token_.decoded +=
          static_cast<char>(hex_digit(text[position_ + 1]) * 16 + hex_digit(text[position_ + 2]));
      position_ += 2;
    } else {
      source_.fail(position_ - 1, "unknown escape; strings take \\\" \\\\ \\n \\t \\xHH");
    }
    ++position_;
  }
  token_.kind = TokenKind::string;
  token_.text = text.substr(start, position_ - start);
}

}  // namespace rewire::ir

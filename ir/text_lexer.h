// Tokens of the text form, one at a time, without recursion. Only a quoted string's bytes are allocated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rewire::ir {

enum class TokenKind : std::uint8_t {
  end,
  identifier,   // module, f32, layer_norm, true
  number,       // 3, -0.5, 1e-06
  string,       // "text", in `decoded`
  value,        // %name or %"any name"
  symbol,       // @name or @"any name"
  arrow,        // ->
  punctuation,  // one of { } ( ) [ ] , : = *
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // as written
  std::size_t offset = 0;
  std::int32_t line = 1;
  std::string decoded;  // a string's bytes, or the name after % or @
};

/// The parsed text, and its name in messages.
struct SourceText {
  std::string_view text;
  std::string_view file_name;

  /// Throws the UserError of three lines that ir/text.h describes. Very long messages are cut.
  [[noreturn]] void fail(std::size_t offset, std::string_view message) const;
};

/// Returns whether a name needs no quotes after % or @, or as a function's result: [A-Za-z_][A-Za-z0-9_.]*.
bool is_plain_name(std::string_view name);

/// Quotes a string, with \" \\ \n \t and \xHH for other control characters.
std::string quote(std::string_view text);

class Lexer {
 public:
  explicit Lexer(const SourceText& source) : source_(source) { advance(); }

  const Token& peek() const { return token_; }
  /// Returns the current token and moves on to the next.
  Token take();

 private:
  void advance();
  void skip_blank();
  void lex_string();
  void lex_name_after_sigil(TokenKind kind);
  void lex_identifier();
  void lex_number();
  void finish(TokenKind kind, std::size_t length);

  const SourceText& source_;
  std::size_t position_ = 0;
  std::int32_t line_ = 1;
  Token token_;
};

}  // namespace rewire::ir

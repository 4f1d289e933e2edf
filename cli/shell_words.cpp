// Splits a command line as bash does, as far as completion needs: blanks, quotes and backslashes. Escapes
// words for the quote that is open.
#include <algorithm>

#include "cli/complete.h"

namespace rewire::cli {

ShellWords shell_words(std::string_view line, std::string_view breaks) {
  constexpr std::string_view kEscapedInDouble = "\"\\$`";
  ShellWords result;
  std::string word;
  bool any = false;
  std::size_t after_break = 0, after_quote = 0;
  const auto end_word = [&] {
    if (any) result.words.push_back(word);
    word.clear();
    any = false;
    after_break = 0;
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool has_next = i + 1 < line.size();
    if (result.quote != 0 && c == result.quote) {
      result.quote = 0;
    } else if (result.quote == '"' && c == '\\' && has_next &&
               kEscapedInDouble.find(line[i + 1]) != kEscapedInDouble.npos) {
      word += line[++i];
    } else if (result.quote != 0) {
      word += c;
    } else if (c == '\'' || c == '"') {
      result.quote = c;
      any = true;
      after_quote = word.size();
    } else if (c == '\\' && has_next) {
      word += line[++i];
      any = true;
    } else if (c == ' ' || c == '\t') {
      end_word();
    } else {
      word += c;
      any = true;
      if (breaks.find(c) != breaks.npos) after_break = word.size();
    }
  }
  result.kept = result.quote != 0 ? after_quote : after_break;
  result.words.push_back(std::move(word));
  return result;
}

std::string shell_escaped(std::string_view text, char quote) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+%@";
  std::string escaped;
  for (const char c : text) {
    const bool beyond_ascii = (static_cast<unsigned char>(c) & 0x80) != 0;
    if (quote == '\'') {
      escaped += c == '\'' ? "'\\''" : std::string(1, c);
    } else if (quote == '"' && c == '!') {
      escaped += "\"'!'\"";  // bash expands history within ", also after a backslash
    } else {
      const bool special = quote == '"' ? std::string_view("\"\\$`").find(c) != std::string_view::npos
                                        : !beyond_ascii && kPlain.find(c) == kPlain.npos;
      if (special) escaped += '\\';
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace rewire::cli

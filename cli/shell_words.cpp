// A command line taken apart as bash does it, as far as completion needs: blanks, quotes and backslashes.
#include "cli/complete.h"

namespace rewire::cli {

ShellWords shell_words(std::string_view line) {
  ShellWords result;
  std::string word;
  char quote = 0;
  bool any = false;
  const auto end_word = [&] {
    if (any) result.words.push_back(word);
    word.clear();
    any = false;
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool has_next = i + 1 < line.size();
    if (quote == '\'' ? c == '\'' : quote == '"' && c == '"') {
      quote = 0;
    } else if (quote == '"' && c == '\\' && has_next &&
               std::string_view("\"\\$`").find(line[i + 1]) != std::string_view::npos) {
      word += line[++i];
    } else if (quote != 0) {
      word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      any = true;
    } else if (c == '\\' && has_next) {
      word += line[++i];
      any = true;
    } else if (c == ' ' || c == '\t') {
      end_word();
    } else {
      word += c;
      any = true;
    }
  }
  result.words.push_back(word);
  result.quoted = quote != 0;
  return result;
}

}  // namespace rewire::cli

// Completion at the Tab key: commands, options and values. It uses the declarations of the commands and the
// plugins, recipes, runs and files that exist now.
//
// In: the words of a command line, the last one unfinished. Out: candidates for the last word, each with a
// line about it. It runs a plugin's library only if the user has agreed to it (runtime::inspect_agreed), and
// never writes anything. The shells' scripts (completion.cpp) call `rewire __complete SHELL …` and read its
// answer.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace rewire::cli {

struct Candidate {
  std::string word;  // the whole word; more follows one that ends in / = : , . or (
  std::string doc = {};
  bool is_path = false;  // the path of a file, or of a folder in which more follows
};

/// Returns candidates. `words` are without the program's name; the last may be empty. Faulty words, or
/// faulty files that they name, only reduce the candidates.
std::vector<Candidate> complete(const std::vector<Command>& commands, const std::vector<std::string>& words);

/// The words of a command line up to the cursor, split as bash does, with the program's name.
struct ShellWords {
  std::vector<std::string> words;  // the last is at the cursor, and may be empty
  char quote = 0;                  // the open quote at the cursor: ' or ", 0 for none
  std::size_t kept = 0;            // bytes at the start of the last word that bash keeps
};
/// Splits a line. `breaks` is COMP_WORDBREAKS. bash replaces the text after the last unquoted break
/// character, or after the open quote.
ShellWords shell_words(std::string_view line, std::string_view breaks);
/// Escapes `text` so that bash reads it back after this open quote (0 for none) and expands or runs nothing.
std::string shell_escaped(std::string_view text, char quote);

/// An internal command, which people do not call.
inline constexpr const char* kCompleteCommand = "__complete";
/// Prints candidates, one per line. Arguments: bash LINE BREAKS, or zsh|fish WORD…. It always succeeds.
void answer_completion(const std::vector<Command>& commands, const std::vector<std::string>& arguments);

}  // namespace rewire::cli

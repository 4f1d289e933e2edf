// What can stand where a person presses Tab: commands, options and values, from what the commands declare and what is there
// now (plugins, recipes, runs, files).
//
// In: the words of a command line, the last of them unfinished. Out: candidates for the last word, each with a line on it.
// A plugin's library is asked what it is only where that is agreed on (runtime::inspect_agreed); nothing is ever written.
// The shells' scripts (completion.cpp) call `rewire __complete SHELL …`, which answers what they read.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace rewire::cli {

struct Candidate {
  std::string word;  // the whole of it; more is to come behind one that ends in / = : , or .
  std::string doc = {};
  bool is_path = false;  // of a file, or of a folder that more is to come behind
};

/// `words` without the program's name; the last may be empty. Whatever is wrong with them, or with files that they name,
/// there are only fewer candidates.
std::vector<Candidate> complete(const std::vector<Command>& commands, const std::vector<std::string>& words);

/// The words of a command line up to the cursor, as bash takes them apart, with the program's name.
struct ShellWords {
  std::vector<std::string> words;  // the last is what the cursor is in or after: maybe empty
  char quote = 0;                  // the quote that is open at the cursor: ' or ", 0 for none
  std::size_t kept = 0;            // bytes at the start of the last word that bash leaves as they are
};
/// `breaks` is COMP_WORDBREAKS. bash replaces what follows the last of them that is not quoted, or the open quote.
ShellWords shell_words(std::string_view line, std::string_view breaks);
/// `text` as bash reads it back after this open quote (0 for none): nothing of it is expanded or run.
std::string shell_escaped(std::string_view text, char quote);

/// `__complete`: no command of a person's.
inline constexpr const char* kCompleteCommand = "__complete";
/// bash LINE BREAKS, or zsh|fish WORD…: prints candidates, a line each. Ends well whatever happens.
void answer_completion(const std::vector<Command>& commands, const std::vector<std::string>& arguments);

}  // namespace rewire::cli

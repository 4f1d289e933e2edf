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

/// The words of a command line up to the cursor, as a shell takes them apart, with the program's name.
struct ShellWords {
  std::vector<std::string> words;  // the last is what the cursor stands in or behind: maybe empty
  bool quoted = false;             // the cursor stands within quotes
};
ShellWords shell_words(std::string_view line);

/// `__complete`: no command of a person's.
inline constexpr const char* kCompleteCommand = "__complete";
/// bash LINE, or zsh|fish WORD…: prints candidates, a line each. Ends well whatever happens.
void answer_completion(const std::vector<Command>& commands, const std::vector<std::string>& arguments);

}  // namespace rewire::cli

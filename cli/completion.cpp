// rewire completion: prints the script that makes a shell call `rewire __complete` at Tab, and answers such
// calls in the form that each shell expects.
//
//   bash       gets a kind, then candidates; the arguments are the line to the cursor and COMP_WORDBREAKS
//   zsh, fish  get candidates and escape them; the arguments are the words to the cursor
//
// A candidate is WORD TAB DOC. Its last character decides whether the script adds a blank. For bash, WORD is
// the text to insert: without the part of the word that bash keeps, and escaped for the open quote. For
// candidates of the kind `files`, bash itself escapes the text. `default` leaves everything to bash.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/complete.h"
#include "cli/completion_scripts.h"
#include "cli/log.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "ir/printable.h"

namespace rewire::cli {
namespace {

struct CompletionRequest {
  std::string shell;
};

std::vector<std::string> shells() {
  std::vector<std::string> names;
  for (const CompletionScript& script : completion_scripts()) names.emplace_back(script.shell);
  return names;
}

void declare(CompletionRequest& request, Options& options) {
  options.text("SHELL", request.shell, "bash, zsh or fish", Options::Need::required).takes([] {
    std::vector<Offer> offers;
    for (const std::string& name : shells()) offers.push_back({name});
    return offers;
  });
  options.example("rewire completion bash > ~/.local/share/bash-completion/completions/rewire",
                  "install it for every new bash");
  options.example("rewire completion zsh > ~/.zfunc/_rewire",
                  "install it for zsh, with fpath+=(~/.zfunc) before compinit in ~/.zshrc");
  options.example("rewire completion fish > ~/.config/fish/completions/rewire.fish",
                  "install it for every fish, at once");
}

void run(const CompletionRequest& request) {
  const std::vector<CompletionScript> scripts = completion_scripts();
  const auto script = std::ranges::find(scripts, request.shell, &CompletionScript::shell);
  if (script == scripts.end()) {
    user_error("completion: there is no script for '{}'{}; there are scripts for {}", request.shell,
               did_you_mean(request.shell, shells()), fmt::join(shells(), ", "));
  }
  write_stdout(script->text);
}

/// Returns whether a line of the answer can hold the word, and a shell can show it.
bool can_be_told(const std::string& word) {
  return word.find_first_of("\t\n") == std::string::npos && visible(word) == word;
}

void print_candidate(std::string_view word, const Candidate& candidate) {
  constexpr std::size_t kLongestDoc = 68;
  std::string doc = one_line(candidate.doc);
  if (doc.size() > kLongestDoc) doc = std::string(cut(doc, kLongestDoc - 3)) + "...";
  write_stdout(fmt::format("{}\t{}\n", word, doc));
}

void print_for_bash(const ShellWords& line, const std::vector<Candidate>& candidates) {
  const bool files = std::ranges::all_of(candidates, &Candidate::is_path);
  const bool from_home = line.words.back().starts_with('~');
  write_stdout(from_home ? "default\n" : files ? "files\n" : "words\n");
  for (const Candidate& candidate : candidates) {
    const std::string_view rest = std::string_view(candidate.word).substr(line.kept);
    if (!rest.empty())
      print_candidate(files ? std::string(rest) : shell_escaped(rest, line.quote), candidate);
  }
}

}  // namespace

void answer_completion(const std::vector<Command>& commands, const std::vector<std::string>& arguments) {
  set_up_log("off");
  try {
    const bool is_line = arguments.size() == 3 && arguments.front() == "bash";
    ShellWords line;
    if (is_line) line = shell_words(arguments[1], arguments[2]);
    const std::vector<std::string>& words = is_line ? line.words : arguments;
    if (words.size() < 2) return;
    std::vector<Candidate> candidates = complete(commands, {words.begin() + 1, words.end()});
    std::erase_if(candidates, [](const Candidate& candidate) { return !can_be_told(candidate.word); });
    if (is_line) return print_for_bash(line, candidates);
    for (const Candidate& candidate : candidates) print_candidate(candidate.word, candidate);
  } catch (const std::exception&) {  // a message would disturb the command line at Tab
  }
}

Command completion_command() {
  return make_command<CompletionRequest>(
      "completion", "print the script that completes command lines in a shell", declare, run);
}

}  // namespace rewire::cli

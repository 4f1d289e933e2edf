// rewire completion: the script that makes a shell ask `rewire __complete` at Tab; and its answers, as each shell reads them.
//
//   bash       a kind, then candidates; its arguments are the line to the cursor, and COMP_WORDBREAKS
//   zsh, fish  candidates, which the shell escapes; their arguments are the words to the cursor
//
// A candidate is WORD TAB DOC. The script tells by its last character whether a blank follows. For bash a candidate is
// what bash is to insert: without what it keeps of the word, and escaped by the quote that is open. Of the kind `files`
// bash escapes by itself; `default` leaves all to bash.
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
                  "for every bash that begins from now on");
  options.example("rewire completion zsh > ~/.zfunc/_rewire",
                  "with fpath+=(~/.zfunc) before compinit in ~/.zshrc");
  options.example("rewire completion fish > ~/.config/fish/completions/rewire.fish",
                  "at once, in every fish");
}

void run(const CompletionRequest& request) {
  const std::vector<CompletionScript> scripts = completion_scripts();
  const auto script = std::ranges::find(scripts, request.shell, &CompletionScript::shell);
  if (script == scripts.end()) {
    user_error("completion: there is no script for '{}'{}; there are those for {}", request.shell,
               did_you_mean(request.shell, shells()), fmt::join(shells(), ", "));
  }
  write_stdout(script->text);
}

/// What a line of the answer can hold, and a shell show.
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
  } catch (const std::exception&) {  // there is nobody to tell: the person has pressed Tab
  }
}

Command completion_command() {
  return make_command<CompletionRequest>("completion", "the script that completes command lines in a shell",
                                         declare, run);
}

}  // namespace rewire::cli

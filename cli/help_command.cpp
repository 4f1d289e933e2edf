// rewire help: prints a page about a topic, a command or a key of a recipe.
#include <algorithm>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/streams.h"
#include "cli/topics.h"
#include "ir/error.h"
#include "runtime/recipe/key_info.h"

namespace rewire::cli {
namespace {

struct HelpRequest {
  std::vector<std::string> words;
};

/// Returns the topics and commands.
std::vector<Offer> subjects() {
  std::vector<Offer> offers;
  for (Topic& topic : topics()) offers.push_back({std::move(topic.name), std::move(topic.doc)});
  for (const Command& command : commands()) offers.push_back({command.name, command.doc});
  return offers;
}

void declare(HelpRequest& request, Options& options) {
  options
      .texts("SUBJECT", request.words,
             "a topic, a command, a key of a recipe, or a section with a dot at the end",
             Options::Need::optional)
      .takes(subjects);
  options.example("rewire help", "list the topics");
  options.example("rewire help recipes", "explain recipes and list their keys");
  options.example("rewire help train.batch",
                  "explain one key; rewire help train. explains all keys of [train]");
}

bool print_command(std::vector<std::string> words) {
  const std::vector<Command> all = commands();
  const Command* command = find_command(all, words);
  if (command == nullptr || !words.empty()) return false;
  write_stdout(help_of(*command, declaration_of(*command), commands_of(all, command->name)));
  return true;
}

void print_topic(const std::string& name) {
  write_stdout(topic_page(name));
  const std::vector<Command> all = commands();
  if (std::ranges::find(all, name, &Command::name) != all.end())
    print("\nrewire {} --help explains the command of this name.\n", name);
}

void run(const HelpRequest& request) {
  if (request.words.empty()) {
    print("rewire --help lists the commands; rewire COMMAND --help explains one.\n\n");
    write_stdout(list_of_topics());
    return;
  }
  const std::string& subject = request.words.front();
  const std::vector<Topic> all = topics();
  if (request.words.size() == 1 && std::ranges::find(all, subject, &Topic::name) != all.end())
    return print_topic(subject);
  if (print_command(request.words)) return;
  if (const std::vector<Command> family = commands_of(commands(), subject);
      request.words.size() == 1 && !family.empty())
    return write_stdout(list_of(family));
  if (const auto page = request.words.size() == 1 ? key_page(subject) : std::nullopt)
    return write_stdout(*page);
  std::string whole;
  for (const std::string& word : request.words) whole += (whole.empty() ? "" : " ") + word;
  std::vector<std::string> known;
  for (Offer& offer : subjects()) known.push_back(std::move(offer.word));
  for (runtime::KeyInfo& key : runtime::key_infos({})) known.push_back(std::move(key.path));
  user_error("help: there is no topic, command or key '{}'{}; rewire help lists the topics", whole,
             did_you_mean(whole, known));
}

}  // namespace

Command help_command() {
  return make_command<HelpRequest>("help", "explain a topic, a command or a key of a recipe", declare, run);
}

}  // namespace rewire::cli

// rewire help: topics, commands and keys of recipes, each a page.
#include <algorithm>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/key_docs.h"
#include "cli/streams.h"
#include "cli/topics.h"
#include "ir/error.h"

namespace rewire::cli {
namespace {

struct HelpRequest {
  std::vector<std::string> words;
};

/// What can be asked for, keys apart.
std::vector<Offer> subjects() {
  std::vector<Offer> offers;
  for (Topic& topic : topics()) offers.push_back({std::move(topic.name), std::move(topic.doc)});
  for (const Command& command : commands()) offers.push_back({command.name, command.doc});
  return offers;
}

void declare(HelpRequest& request, Options& options) {
  options
      .texts("SUBJECT", request.words,
             "a topic, a command, a recipe's key, or its section with a point behind it",
             Options::Need::optional)
      .takes(subjects);
  options.example("rewire help", "the topics");
  options.example("rewire help recipes", "what a recipe is, and its keys");
  options.example("rewire help train.batch", "one key; train. with a point: those of [train]");
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
  for (KeyDoc& key : key_docs({})) known.push_back(std::move(key.path));
  user_error("help: there is no topic, command or key '{}'{}; rewire help lists the topics", whole,
             did_you_mean(whole, known));
}

}  // namespace

Command help_command() {
  return make_command<HelpRequest>("help", "a topic, a command or a recipe's key explained", declare, run);
}

}  // namespace rewire::cli

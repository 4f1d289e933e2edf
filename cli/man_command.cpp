// rewire man: prints or writes manual pages for man and groff.
#include <algorithm>
#include <filesystem>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/man.h"
#include "cli/pager.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/io/files.h"

namespace rewire::cli {
namespace {

struct ManRequest {
  std::vector<std::string> words;
  std::string output;
};

void declare(ManRequest& request, Options& options) {
  options
      .texts("COMMAND", request.words, "the command whose page is printed; rewire(1) by default",
             Options::Need::optional)
      .takes([] { return offers_of(commands()); });
  options.text("--output", request.output, "a folder that every page is written to, as rewire-COMMAND.1")
      .takes(Values::folder);
  options.example("rewire man dump", "read a page on a terminal; elsewhere print its groff source");
  options.example("rewire man --output ~/.local/share/man/man1",
                  "write all pages, so that man rewire-dump finds its page");
}

void write_all(const std::vector<Command>& all, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) user_error("man: cannot make the folder {}: {}", folder, error.message());
  runtime::write_file_atomically(folder + "/rewire.1", man_page_of_all(all));
  for (const Command& command : all)
    runtime::write_file_atomically(folder + "/" + man_name(command) + ".1",
                                   man_page(command, declaration_of(command)));
}

void run(const ManRequest& request) {
  const std::vector<Command> all = commands();
  if (!request.output.empty()) {
    if (!request.words.empty()) user_error("man: --output writes every page: drop {}", request.words.front());
    return write_all(all, request.output);
  }
  if (request.words.empty()) {
    return page_through_man([&] { write_stdout(man_page_of_all(all)); },
                            [&] { write_stdout(help_of_all(all)); });
  }
  std::vector<std::string> words = request.words;
  const Command* command = find_command(all, words);
  if (command == nullptr || !words.empty()) {
    std::string whole;
    for (const std::string& word : request.words) whole += (whole.empty() ? "" : " ") + word;
    std::vector<std::string> names;
    for (const Command& one : all) names.push_back(one.name);
    user_error("man: unknown command '{}'{}; rewire --help lists the commands", whole,
               did_you_mean(whole, names));
  }
  const Declaration declaration = declaration_of(*command);
  page_through_man([&] { write_stdout(man_page(*command, declaration)); },
                   [&] { write_stdout(help_of(*command, declaration, commands_of(all, command->name))); });
}

}  // namespace

Command man_command() {
  return make_command<ManRequest>("man", "print a command's manual page, or write all of them", declare, run);
}

}  // namespace rewire::cli

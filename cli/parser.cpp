// The command line: which command, its options, help. The one file that knows CLI11.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iterator>

#include "cli/command.h"
#include "cli/log.h"
#include "cli/memory.h"
#include "cli/streams.h"
#include "ir/error.h"

namespace rewire::cli {
namespace {

/// Of any integer: what is counted with it is then far from overflow.
constexpr std::int64_t kMost = 1'000'000'000;

/// The options that every command has.
struct Common {
  bool quiet = false;
  std::string log_level = "info";
};

std::size_t word_count(const std::string& name) {
  return 1 + static_cast<std::size_t>(std::ranges::count(name, ' '));
}

/// `plugin` and `plugins` are one word.
std::string_view canonical(std::string_view word) {
  return word == "plugin" ? "plugins" : word;
}

bool stands_at_front(const std::string& name, const std::vector<std::string>& arguments) {
  const std::size_t space = name.find(' ');
  if (arguments.empty() || canonical(arguments.front()) != canonical(std::string_view(name).substr(0, space)))
    return false;
  return space == std::string::npos || (arguments.size() > 1 && arguments[1] == name.substr(space + 1));
}

/// Those of two words whose first it is.
std::vector<Command> commands_of(const std::vector<Command>& commands, std::string_view word) {
  std::vector<Command> found;
  std::ranges::copy_if(commands, std::back_inserter(found), [&](const Command& command) {
    const std::size_t space = command.name.find(' ');
    return space != std::string::npos && canonical(command.name.substr(0, space)) == canonical(word);
  });
  return found;
}

/// `rewire plugin nwe`: a command that has further ones takes no argument. `rewire data`: a word that is none
/// without them.
void refuse_unknown_second_word(const std::vector<Command>& commands,
                                const std::vector<std::string>& arguments, bool is_command) {
  std::vector<std::string> names, seconds;
  for (const Command& command : commands_of(commands, arguments.front())) {
    names.push_back(command.name);
    seconds.push_back(command.name.substr(command.name.find(' ') + 1));
  }
  if (names.empty()) return;
  if (arguments.size() < 2 || arguments[1].starts_with('-')) {
    if (is_command) return;
    user_error("'{}' wants a second word: there are {}", arguments[0], fmt::join(names, ", "));
  }
  user_error("unknown command '{} {}'{}; there are {}", arguments[0], arguments[1],
             did_you_mean(arguments[1], seconds), fmt::join(names, ", "));
}

bool asks_for_help(const std::string& argument) {
  return argument == "--help" || argument == "-h";
}

/// The command with the most words at the front of the arguments, which are then the rest.
const Command& take_command(const std::vector<Command>& commands, std::vector<std::string>& arguments) {
  const Command* best = nullptr;
  for (const Command& command : commands) {
    if (stands_at_front(command.name, arguments) &&
        (best == nullptr || word_count(command.name) > word_count(best->name))) {
      best = &command;
    }
  }
  if (best == nullptr) {
    refuse_unknown_second_word(commands, arguments, false);
    std::vector<std::string> names;
    for (const Command& command : commands) names.push_back(command.name);
    if (arguments.front().starts_with('-')) {
      user_error("'{}' stands before the command: write rewire COMMAND {} (rewire --help lists the commands)",
                 arguments.front(), arguments.front());
    }
    user_error("unknown command '{}'{}; rewire --help lists the commands", arguments.front(),
               did_you_mean(arguments.front(), names));
  }
  if (word_count(best->name) == 1) refuse_unknown_second_word(commands, arguments, true);
  arguments.erase(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(word_count(best->name)));
  return *best;
}

/// One line each.
std::string list_of(const std::vector<Command>& commands) {
  std::size_t width = 0;
  for (const Command& command : commands) width = std::max(width, command.name.size());
  std::string list;
  for (const Command& command : commands)
    list += fmt::format("  {:<{}}  {}\n", command.name, width, command.doc);
  return list;
}

void print_help(const std::vector<Command>& commands) {
  print("Rewire {}: a compiler for residual connections\n\nUsage: rewire COMMAND [OPTIONS]\n\nCommands:\n",
        REWIRE_VERSION);
  write_stdout(list_of(commands));
  print(
      "\nMODEL is a recipe (.toml), a module (.rir) or a name of the zoo (rewire models).\n"
      "rewire COMMAND --help explains a command; rewire --version prints the version.\n");
}

}  // namespace

struct Options::Impl {
  CLI::App app;
};

void Options::text(const std::string& name, std::string& target, const std::string& doc, Need need) {
  impl_.app.add_option(name, target, doc)->required(need == Need::required)->type_name("TEXT");
}

void Options::choice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                     const std::string& doc, const std::map<std::string, std::string>& synonyms) {
  const auto translate = [synonyms](std::string& value) {
    if (const auto known = synonyms.find(value); known != synonyms.end()) value = known->second;
    return std::string();
  };
  const auto check = [choices](const std::string& value) {
    if (std::ranges::find(choices, value) != choices.end()) return std::string();
    return fmt::format("'{}' is none of {}{}", value, fmt::join(choices, ", "), did_you_mean(value, choices));
  };
  impl_.app.add_option(name, target, doc)
      ->capture_default_str()
      ->type_name(fmt::format("{}", fmt::join(choices, "|")))
      ->transform(CLI::Validator(translate, "", "synonym"))
      ->check(CLI::Validator(check, "", "choice"));
}

void Options::list(const std::string& name, std::vector<std::string>& target, const std::string& doc) {
  impl_.app.add_option(name, target, doc)->allow_extra_args(false)->type_name("TEXT");
}

void Options::texts(const std::string& name, std::vector<std::string>& target, const std::string& doc) {
  impl_.app.add_option(name, target, doc)->required()->type_name("TEXT");
}

void Options::integer(const std::string& name, std::int64_t& target, std::int64_t minimum,
                      const std::string& doc, Need need) {
  const auto check = [minimum](const std::string& value) {
    std::int64_t number = 0;
    if (!CLI::detail::lexical_cast(value, number)) return fmt::format("'{}' is no integer", value);
    if (number < minimum) return fmt::format("{} is out of range: it must be at least {}", value, minimum);
    if (number > kMost) return fmt::format("{} is out of range: it must be at most {}", value, kMost);
    return std::string();
  };
  CLI::Option* option = impl_.app.add_option(name, target, doc)->required(need == Need::required);
  if (need == Need::optional) option->capture_default_str();
  option->type_name("INT")->check(CLI::Validator(check, "", "integer"));
}

void Options::number(const std::string& name, double& target, double minimum, const std::string& doc) {
  const auto check = [minimum](const std::string& value) {
    double number = 0;
    if (!CLI::detail::lexical_cast(value, number) || !std::isfinite(number))
      return fmt::format("'{}' is no number", value);
    if (number < minimum) return fmt::format("{} is out of range: it must be at least {}", value, minimum);
    return std::string();
  };
  impl_.app.add_option(name, target, doc)
      ->capture_default_str()
      ->type_name("NUMBER")
      ->check(CLI::Validator(check, "", "number"));
}

void Options::flag(const std::string& name, bool& target, const std::string& doc) {
  impl_.app.add_flag(name, target, doc);
}

/// Parses the options of one command.
class Parser {
 public:
  /// `further`: the commands of two words that begin with this one.
  Parser(const Command& command, const std::vector<Command>& further) : command_(command) {
    impl_.app.name("rewire " + command.name);
    impl_.app.description(command.doc);
    if (!further.empty()) impl_.app.footer("Commands:\n" + list_of(further));
    impl_.app.allow_extras();
    Options options(impl_);
    command.declare(options);
    options.flag("--quiet", common_.quiet, "log errors only");
    options.choice("--log-level", common_.log_level, log_level_names(), "what goes to the log on stderr");
  }

  /// False if the arguments asked for help, which is printed.
  bool parse(std::vector<std::string> arguments) {
    std::ranges::reverse(arguments);  // as CLI11 wants a vector
    try {
      impl_.app.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      write_stdout(impl_.app.help());
      return false;
    } catch (const CLI::ParseError& error) {
      refuse_leftovers();  // an unknown option explains a missing one better than the other way round
      user_error("{}: {}; see rewire {} --help", command_.name, error.what(), command_.name);
    }
    refuse_leftovers();
    return true;
  }

  const Common& common() const { return common_; }

 private:
  void refuse_leftovers() const {
    for (const std::string& left : impl_.app.remaining()) {
      if (!left.starts_with('-')) {
        user_error("{}: unexpected argument '{}'; see rewire {} --help", command_.name, left, command_.name);
      }
      const std::string name = left.substr(0, left.find('='));
      std::vector<std::string> known;
      for (const CLI::Option* option : impl_.app.get_options()) {
        for (const std::string& long_name : option->get_lnames()) known.push_back("--" + long_name);
      }
      user_error("{}: unknown option {}{}; see rewire {} --help", command_.name, name,
                 did_you_mean(name, known), command_.name);
    }
  }

  const Command& command_;
  Common common_;
  Options::Impl impl_;
};

void parse_options(const std::string& name, const std::function<void(Options&)>& declare,
                   std::vector<std::string> arguments) {
  if (std::ranges::any_of(arguments, asks_for_help)) user_error("{}: no place for --help", name);
  const Command command{name, "", declare, {}, ""};
  Parser(command, {}).parse(std::move(arguments));
}

void parse_and_run(const std::vector<Command>& commands, std::vector<std::string> arguments) {
  if (arguments.empty() || asks_for_help(arguments.front()) || arguments.front() == "help") {
    print_help(commands);
    return;
  }
  if (arguments.front() == "--version") {
    print("rewire {}\n", REWIRE_VERSION);
    return;
  }
  const Command& command = take_command(commands, arguments);
  Parser parser(command, commands_of(commands, command.name));
  if (!parser.parse(std::move(arguments))) return;
  set_up_log(parser.common().quiet ? "error" : parser.common().log_level);
  answer_exhausted_memory(command.less);
  command.run();
}

}  // namespace rewire::cli

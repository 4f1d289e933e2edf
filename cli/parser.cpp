// Parses the command line: the command and its options. Only this file uses CLI11.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

#include "cli/command.h"
#include "cli/complete.h"
#include "cli/help.h"
#include "cli/log.h"
#include "cli/memory.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/recipe/key_info.h"

namespace rewire::cli {
namespace {

/// The upper limit of integer options, so that counts stay far from overflow.
constexpr std::int64_t kMostWhole = 1'000'000'000;

/// The options that every command has.
struct Common {
  bool quiet = false;
  std::string log_level = "info";
};

std::size_t word_count(const std::string& name) {
  return 1 + static_cast<std::size_t>(std::ranges::count(name, ' '));
}

/// Treats `plugin` and `plugins` as the same word.
std::string_view canonical(std::string_view word) {
  return word == "plugin" ? "plugins" : word;
}

bool stands_at_front(const std::string& name, const std::vector<std::string>& arguments) {
  const std::size_t space = name.find(' ');
  if (arguments.empty() || canonical(arguments.front()) != canonical(std::string_view(name).substr(0, space)))
    return false;
  return space == std::string::npos || (arguments.size() > 1 && arguments[1] == name.substr(space + 1));
}

/// Refuses an unknown second word (`rewire plugin nwe`), because a command of a family takes no argument.
/// Also refuses a missing second word (`rewire data`), if the first word alone is no command.
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
    user_error("'{}' needs a second word: there are {}", arguments[0], fmt::join(names, ", "));
  }
  user_error("unknown command '{} {}'{}; there are {}", arguments[0], arguments[1],
             did_you_mean(arguments[1], seconds), fmt::join(names, ", "));
}

/// Returns a hint for an unknown option: for --lr=0.1, " (did you mean --set optimizer.lr=0.1?)". Returns ""
/// if no key has this name.
std::string settings_meant(std::string_view option) {
  constexpr std::size_t kMostNamed = 3;
  const std::size_t equals = std::min(option.find('='), option.size());
  const std::string_view name = option.substr(0, equals),
                         value = option.substr(std::min(equals + 1, option.size()));
  if (!name.starts_with("--")) return "";
  std::vector<std::string> settings;
  for (const runtime::KeyInfo& key : runtime::keys_named(name.substr(2))) {
    if (settings.size() < kMostNamed) settings.push_back(fmt::format("--set {}={}", key.path, value));
  }
  return settings.empty() ? "" : fmt::format(" (did you mean {}?)", fmt::join(settings, " or "));
}

bool asks_for_help(const std::string& argument) {
  return argument == "--help" || argument == "-h";
}

/// Removes the command from `arguments`. Throws UserError if there is none.
const Command& take_command(const std::vector<Command>& commands, std::vector<std::string>& arguments) {
  const std::vector<std::string> given = arguments;
  const Command* best = find_command(commands, arguments);
  if (best == nullptr) {
    refuse_unknown_second_word(commands, given, false);
    std::vector<std::string> names;
    for (const Command& command : commands) names.push_back(command.name);
    if (given.front().starts_with('-')) {
      user_error("'{}' comes before the command: write rewire COMMAND {} (rewire --help lists the commands)",
                 given.front(), given.front());
    }
    user_error("unknown command '{}'{}; rewire --help lists the commands", given.front(),
               did_you_mean(given.front(), names));
  }
  if (word_count(best->name) == 1) refuse_unknown_second_word(commands, given, true);
  return *best;
}

}  // namespace

std::vector<Command> commands_of(const std::vector<Command>& commands, std::string_view word) {
  std::vector<Command> found;
  std::ranges::copy_if(commands, std::back_inserter(found), [&](const Command& command) {
    const std::size_t space = command.name.find(' ');
    return space != std::string::npos && canonical(command.name.substr(0, space)) == canonical(word);
  });
  return found;
}

const Command* find_command(const std::vector<Command>& commands, std::vector<std::string>& arguments) {
  const Command* best = nullptr;
  for (const Command& command : commands) {
    if (stands_at_front(command.name, arguments) &&
        (best == nullptr || word_count(command.name) > word_count(best->name))) {
      best = &command;
    }
  }
  if (best != nullptr) {
    arguments.erase(arguments.begin(),
                    arguments.begin() + static_cast<std::ptrdiff_t>(word_count(best->name)));
  }
  return best;
}

struct Options::Impl {
  CLI::App app;
  Declaration declaration;

  OptionInfo& add(OptionInfo info) { return declaration.options.emplace_back(std::move(info)); }
};

OptionInfo& OptionInfo::takes(Values::Kind values_kind, std::vector<std::string> of) {
  values = {values_kind, std::move(of)};
  return *this;
}

OptionInfo& OptionInfo::takes(std::function<std::vector<Offer>()> offers) {
  values = {Values::words, {}, std::move(offers)};
  return *this;
}

OptionInfo& Options::text(const std::string& name, std::string& target, const std::string& doc, Need need) {
  impl_.app.add_option(name, target, doc)->required(need == Need::required)->type_name("TEXT");
  return impl_.add({.name = name, .kind = "TEXT", .doc = doc, .required = need == Need::required});
}

OptionInfo& Options::choice(const std::string& name, std::string& target,
                            const std::vector<std::string>& choices, const std::string& doc,
                            const std::function<std::string(const std::string&)>& meant) {
  const auto meaning = [choices, meant](const std::string& value) {
    if (std::ranges::find(choices, value) != choices.end()) return value;
    return meant == nullptr ? std::string() : meant(value);
  };
  const auto translate = [meaning](std::string& value) {
    if (std::string known = meaning(value); !known.empty()) value = std::move(known);
    return std::string();
  };
  const auto check = [choices, meaning](const std::string& value) {
    if (!meaning(value).empty()) return std::string();
    return fmt::format("'{}' is none of {}{}", value, fmt::join(choices, ", "), did_you_mean(value, choices));
  };
  impl_.app.add_option(name, target, doc)
      ->capture_default_str()
      ->type_name(fmt::format("{}", fmt::join(choices, "|")))
      ->transform(CLI::Validator(translate, "", "synonym"))
      ->check(CLI::Validator(check, "", "choice"));
  return impl_.add({.name = name, .kind = "TEXT", .doc = doc, .default_value = target, .choices = choices});
}

OptionInfo& Options::list(const std::string& name, std::vector<std::string>& target, const std::string& doc) {
  impl_.app.add_option(name, target, doc)->allow_extra_args(false)->type_name("TEXT");
  return impl_.add({.name = name, .kind = "TEXT", .doc = doc, .repeatable = true});
}

OptionInfo& Options::each(const std::string& name, std::function<void(const std::string&)> take,
                          const std::string& doc) {
  impl_.app.add_option_function<std::string>(name, std::move(take), doc)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->trigger_on_parse()
      ->type_name("TEXT");
  return impl_.add({.name = name, .kind = "TEXT", .doc = doc, .repeatable = true});
}

OptionInfo& Options::texts(const std::string& name, std::vector<std::string>& target, const std::string& doc,
                           Need need) {
  impl_.app.add_option(name, target, doc)->required(need == Need::required)->type_name("TEXT");
  return impl_.add(
      {.name = name, .kind = "TEXT", .doc = doc, .required = need == Need::required, .repeatable = true});
}

OptionInfo& Options::integer(const std::string& name, std::int64_t& target, std::int64_t minimum,
                             const std::string& doc, Need need) {
  const auto check = [minimum](const std::string& value) {
    std::int64_t number = 0;
    const char* const end = value.data() + value.size();
    const auto read = std::from_chars(value.data() + (value.starts_with('+') ? 1 : 0), end, number);
    if (read.ptr != end || read.ec == std::errc::invalid_argument)
      return fmt::format("'{}' is not an integer", value);
    if (read.ec == std::errc::result_out_of_range)
      number = std::numeric_limits<std::int64_t>::max() * (value.starts_with('-') ? -1 : 1);
    if (number < minimum) return fmt::format("{} is out of range: it must be at least {}", value, minimum);
    if (number > kMostWhole)
      return fmt::format("{} is out of range: it must be at most {}", value, kMostWhole);
    return std::string();
  };
  CLI::Option* option = impl_.app.add_option(name, target, doc)->required(need == Need::required);
  if (need == Need::optional) option->capture_default_str();
  option->type_name("INT")->check(CLI::Validator(check, "", "integer"));
  return impl_.add(
      {.name = name,
       .kind = "INT",
       .doc = doc,
       .default_value = need == Need::optional && target >= minimum ? fmt::to_string(target) : "",
       .required = need == Need::required});
}

OptionInfo& Options::number(const std::string& name, double& target, double minimum, const std::string& doc) {
  const auto check = [minimum](const std::string& value) {
    double number = 0;
    if (!CLI::detail::lexical_cast(value, number) || !std::isfinite(number))
      return fmt::format("'{}' is not a number", value);
    if (number < minimum) return fmt::format("{} is out of range: it must be at least {}", value, minimum);
    return std::string();
  };
  impl_.app.add_option(name, target, doc)
      ->capture_default_str()
      ->type_name("NUMBER")
      ->check(CLI::Validator(check, "", "number"));
  return impl_.add({.name = name, .kind = "NUMBER", .doc = doc, .default_value = fmt::to_string(target)});
}

OptionInfo& Options::flag(const std::string& name, bool& target, const std::string& doc) {
  impl_.app.add_flag(name, target, doc);
  return impl_.add({.name = name, .kind = "", .doc = doc});
}

void Options::example(const std::string& line, const std::string& doc) {
  impl_.declaration.examples.push_back({line, doc});
}

/// Parses the options of one command.
class Parser {
 public:
  explicit Parser(const Command& command) : command_(command) {
    impl_.app.name("rewire " + command.name);
    impl_.app.allow_extras();
    Options options(impl_);
    command.declare(options);
    options.flag("--quiet", common_.quiet, "log errors only");
    options.choice("--log-level", common_.log_level, log_level_names(),
                   "the lowest level of messages in the log on stderr");
    impl_.declaration.options.push_back({.name = "--help", .kind = "", .doc = "print this help"});
  }

  /// Returns false if the arguments ask for help.
  bool parse(std::vector<std::string> arguments) {
    std::ranges::reverse(arguments);  // the order that CLI11 expects
    try {
      impl_.app.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      return false;
    } catch (const CLI::ParseError& error) {
      refuse_leftovers();  // an unknown option often explains why another is missing
      user_error("{}: {}; see rewire {} --help", command_.name, error.what(), command_.name);
    }
    refuse_leftovers();
    return true;
  }

  const Common& common() const { return common_; }
  const Declaration& declaration() const { return impl_.declaration; }

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
      const bool has_set = std::ranges::find(known, "--set") != known.end();
      const std::string settings = has_set ? settings_meant(left) : "";
      user_error("{}: unknown option {}{}; see rewire {} --help", command_.name, name,
                 settings.empty() ? did_you_mean(name, known) : settings, command_.name);
    }
  }

  const Command& command_;
  Common common_;
  Options::Impl impl_;
};

void parse_options(const std::string& name, const std::function<void(Options&)>& declare,
                   std::vector<std::string> arguments) {
  if (std::ranges::any_of(arguments, asks_for_help)) user_error("{}: --help is not possible here", name);
  const Command command{name, "", declare, {}, ""};
  Parser(command).parse(std::move(arguments));
}

Declaration declaration_of(const Command& command) {
  return Parser(command).declaration();
}

const Command& parse_only(const std::vector<Command>& commands, std::vector<std::string> arguments) {
  if (arguments.empty()) user_error("there is no command; rewire --help lists the commands");
  const Command& command = take_command(commands, arguments);
  Parser(command).parse(std::move(arguments));
  return command;
}

void parse_and_run(const std::vector<Command>& commands, std::vector<std::string> arguments) {
  if (arguments.empty() || asks_for_help(arguments.front())) {
    write_stdout(help_of_all(commands));
    return;
  }
  if (arguments.front() == kCompleteCommand) {
    answer_completion(commands, {arguments.begin() + 1, arguments.end()});
    return;
  }
  if (arguments.front() == "--version") {
    print("rewire {}\n", REWIRE_VERSION);
    return;
  }
  const Command& command = take_command(commands, arguments);
  Parser parser(command);
  if (!parser.parse(std::move(arguments))) {
    write_stdout(help_of(command, parser.declaration(), commands_of(commands, command.name)));
    return;
  }
  set_up_log(parser.common().quiet ? "error" : parser.common().log_level);
  answer_exhausted_memory(command.less);
  command.run();
}

}  // namespace rewire::cli

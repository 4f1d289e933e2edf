// A command for the parser: a name, one line of help, the options it declares, and its function. A command's
// file knows neither the parser's library nor the exit codes: it throws, and cli/main.cpp handles errors.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::cli {

/// A word that completion offers, and a line about it; "" for none.
struct Offer {
  std::string word, doc = {};
};

/// Makes offers of rows, or pointers to rows, that have a name and a doc.
template <class Rows>
std::vector<Offer> offers_of(const Rows& rows) {
  std::vector<Offer> offers;
  for (const auto& row : rows) {
    if constexpr (requires { row->name; }) {
      offers.push_back({std::string(row->name), std::string(row->doc)});
    } else {
      offers.push_back({row.name, row.doc});
    }
  }
  return offers;
}

/// The kind of an option's values. Help shows it as the value's name, and completion uses it.
struct Values {
  enum Kind : std::uint8_t {
    text,
    file,        // with one of the endings `of`; any if there are none
    named_file,  // NAME=FILE, or FILE
    folder,
    run,         // the folder of a run
    model,       // a recipe, a module or a model of the zoo
    trained,     // a run, or a model
    checkpoint,  // of the run on the command line; or one of the words `of`
    setting,     // KEY=VALUE of a recipe, in the sections `of` or in all
    plugin,      // NAME:KEY=VALUE,...
    formula,     // an expression of the plugin `formula`
    plugin_name,
    words,  // the words of `offers`, among others
  };
  Kind kind = Kind::text;
  std::vector<std::string> of = {};
  std::function<std::vector<Offer>()> offers = nullptr;  // called by completion
};

/// An option or argument, as declared.
struct OptionInfo {
  std::string name;  // "--stage"; "MODEL" for an argument
  std::string kind;  // of its value: "TEXT", "INT", "NUMBER"; "" for a flag
  std::string doc;
  std::string default_value = {};  // "" if there is none to show
  std::vector<std::string> choices = {};
  bool required = false, repeatable = false;
  Values values = {};

  bool is_argument() const { return !name.starts_with('-'); }
  bool takes_value() const { return !kind.empty(); }
  OptionInfo& takes(Values::Kind values_kind, std::vector<std::string> of = {});
  /// Sets words that completion offers; the option takes others too.
  OptionInfo& takes(std::function<std::vector<Offer>()> offers);
};

/// A command line as a person types it, "rewire models --json", and its effect.
struct Example {
  std::string line, doc;
};

/// Declares a command's options. Each call binds one to a variable that must outlive the parse. A name
/// without dashes is a positional argument.
class Options {
 public:
  enum class Need : std::uint8_t { optional, required };

  OptionInfo& text(const std::string& name, std::string& target, const std::string& doc,
                   Need need = Need::optional);
  /// An option that takes one of `choices`. `meant` returns the choice that another word means, or "".
  OptionInfo& choice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                     const std::string& doc,
                     const std::function<std::string(const std::string&)>& meant = nullptr);
  /// An option that may be repeated, with one value each time.
  OptionInfo& list(const std::string& name, std::vector<std::string>& target, const std::string& doc);
  /// An option that may be repeated; `take` is called with each value, in the order of the command line.
  OptionInfo& each(const std::string& name, std::function<void(const std::string&)> take,
                   const std::string& doc);
  /// A positional argument of one value or more, or of none if it is optional.
  OptionInfo& texts(const std::string& name, std::vector<std::string>& target, const std::string& doc,
                    Need need = Need::required);
  OptionInfo& integer(const std::string& name, std::int64_t& target, std::int64_t minimum,
                      const std::string& doc, Need need = Need::optional);
  /// An option that takes a finite number of at least `minimum`.
  OptionInfo& number(const std::string& name, double& target, double minimum, const std::string& doc);
  OptionInfo& flag(const std::string& name, bool& target, const std::string& doc);

  /// Adds an example to the end of the command's help.
  void example(const std::string& line, const std::string& doc);

 private:
  friend class Parser;
  struct Impl;
  explicit Options(Impl& impl) : impl_(impl) {}
  Impl& impl_;
};

struct Command {
  std::string name;  // one word or two: "run", "plugins info"
  std::string doc;   // one line, for `rewire --help`
  std::function<void(Options&)> declare;
  std::function<void()> run;
  std::string less;  // advice if memory is exhausted
};

/// The declared options and examples of a command. The options that every command has come last.
struct Declaration {
  std::deque<OptionInfo> options;
  std::vector<Example> examples;
};
Declaration declaration_of(const Command& command);

constexpr const char* kSmallerBatch =
    "a smaller batch (--set train.batch=N, with train.accumulate=2 for the same step), "
    "train.recompute=block or a smaller model";

/// Makes a command whose options are the fields of a struct: declare(request, options), then run(request).
template <class Request>
Command make_command(std::string name, std::string doc, void (*declare)(Request&, Options&),
                     void (*run)(const Request&), std::string less = kSmallerBatch) {
  auto request = std::make_shared<Request>();
  return {std::move(name), std::move(doc),
          [request, declare](Options& options) { declare(*request, options); },
          [request, run] { run(*request); }, std::move(less)};
}

/// Parses `arguments` by the options that `declare` declares, as if they followed the command `name`,
/// without running it. Throws UserError on anything unknown, and on --help.
void parse_options(const std::string& name, const std::function<void(Options&)>& declare,
                   std::vector<std::string> arguments);

/// Returns all commands, in the order of `rewire --help`: cli/commands.cpp.
std::vector<Command> commands();

/// Returns the two-word commands whose first word is `word`; `plugin` and `plugins` count as one word.
std::vector<Command> commands_of(const std::vector<Command>& commands, std::string_view word);
/// Returns the command with the most words at the front of `arguments` and removes these words; null if
/// there is none.
const Command* find_command(const std::vector<Command>& commands, std::vector<std::string>& arguments);

/// Returns the command that the arguments (without the program's name) select, and sets its variables. Does
/// not run it. Throws UserError as parse_and_run() does.
const Command& parse_only(const std::vector<Command>& commands, std::vector<std::string> arguments);

/// Parses the arguments (without the program's name), sets up the log and runs the command. Also answers
/// --help and --version. Throws UserError on anything unknown, with the nearest match.
void parse_and_run(const std::vector<Command>& commands, std::vector<std::string> arguments);

}  // namespace rewire::cli

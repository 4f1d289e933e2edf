// What a command is to the parser: a name, one line of help, the options it declares and what it does. A
// command's file knows neither the parser's library nor the exit codes: it throws, cli/main.cpp answers.
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

/// A word that completion offers, and a line on it; "" where nothing is to be said.
struct Offer {
  std::string word, doc = {};
};

/// Of rows, or pointers to rows, that have a name and a doc.
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

/// What the values of an option are. Help shows it as the value's name, and completion offers by it.
struct Values {
  enum Kind : std::uint8_t {
    text,
    file,        // with one of the endings `of`; any where there are none
    named_file,  // NAME=FILE, or FILE
    folder,
    run,         // the folder of a run
    model,       // a recipe, a module or a model of the zoo
    trained,     // a run, or a model
    checkpoint,  // of the run that the command line names; or one of the words `of`
    setting,     // KEY=VALUE of a recipe; of the sections `of`, or of all
    plugin,      // NAME:KEY=VALUE,...
    plugin_name,
    words,  // those of `offers`, among others
  };
  Kind kind = Kind::text;
  std::vector<std::string> of = {};
  std::function<std::vector<Offer>()> offers = nullptr;  // asked where completion is
};

/// An option, or an argument, as it was declared.
struct OptionInfo {
  std::string name;  // "--stage"; "MODEL" of an argument
  std::string kind;  // of its value: "TEXT", "INT", "NUMBER"; "" of a flag
  std::string doc;
  std::string default_value = {};  // "" where there is none to show
  std::vector<std::string> choices = {};
  bool required = false, repeatable = false;
  Values values = {};

  bool is_argument() const { return !name.starts_with('-'); }
  bool takes_value() const { return !kind.empty(); }
  OptionInfo& takes(Values::Kind values_kind, std::vector<std::string> of = {});
  /// Words that it takes beside others.
  OptionInfo& takes(std::function<std::vector<Offer>()> offers);
};

/// A command line as a person types it, "rewire models --json", and what it does.
struct Example {
  std::string line, doc;
};

/// Where a command declares its options. Each call binds one to a variable that must outlive the parse. A
/// name without dashes is a positional argument.
class Options {
 public:
  enum class Need : std::uint8_t { optional, required };

  OptionInfo& text(const std::string& name, std::string& target, const std::string& doc,
                   Need need = Need::optional);
  /// One of `choices`; a key of `synonyms` is another word for one.
  OptionInfo& choice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                     const std::string& doc, const std::map<std::string, std::string>& synonyms = {});
  /// May stand more than once, one value each time.
  OptionInfo& list(const std::string& name, std::vector<std::string>& target, const std::string& doc);
  /// A positional argument of one value or more; none too where it is optional.
  OptionInfo& texts(const std::string& name, std::vector<std::string>& target, const std::string& doc,
                    Need need = Need::required);
  OptionInfo& integer(const std::string& name, std::int64_t& target, std::int64_t minimum,
                      const std::string& doc, Need need = Need::optional);
  /// Finite and at least `minimum`.
  OptionInfo& number(const std::string& name, double& target, double minimum, const std::string& doc);
  OptionInfo& flag(const std::string& name, bool& target, const std::string& doc);

  /// Stands at the end of the command's help.
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
  std::string less;  // what would take less memory, where that is exhausted
};

/// What a command declares, with the options that every command has at the end.
struct Declaration {
  std::deque<OptionInfo> options;
  std::vector<Example> examples;
};
Declaration declaration_of(const Command& command);

constexpr const char* kSmallerBatch = "a smaller batch (--set train.batch=N) or a smaller model";

/// A command whose options stand in a struct of its own: declare(request, options), then run(request).
template <class Request>
Command make_command(std::string name, std::string doc, void (*declare)(Request&, Options&),
                     void (*run)(const Request&), std::string less = kSmallerBatch) {
  auto request = std::make_shared<Request>();
  return {std::move(name), std::move(doc),
          [request, declare](Options& options) { declare(*request, options); },
          [request, run] { run(*request); }, std::move(less)};
}

/// Parses `arguments` as the options that `declare` has, as if they stood behind the command `name`; it is
/// not run. UserError on anything it does not know, and on --help.
void parse_options(const std::string& name, const std::function<void(Options&)>& declare,
                   std::vector<std::string> arguments);

/// All commands, in the order of `rewire --help`: cli/commands.cpp.
std::vector<Command> commands();

/// Those of two words whose first is `word`; `plugin` and `plugins` are one word.
std::vector<Command> commands_of(const std::vector<Command>& commands, std::string_view word);
/// The command with the most words at the front of the arguments, which are then the rest; null if there is none.
const Command* find_command(const std::vector<Command>& commands, std::vector<std::string>& arguments);

/// The command that the arguments (without the program's name) name, whose variables then hold the options. It is not
/// run. UserError as parse_and_run().
const Command& parse_only(const std::vector<Command>& commands, std::vector<std::string> arguments);

/// Parses the arguments (without the program's name), sets up the log and runs the command; also answers
/// --help and --version. UserError on anything it does not know, with the nearest match.
void parse_and_run(const std::vector<Command>& commands, std::vector<std::string> arguments);

}  // namespace rewire::cli

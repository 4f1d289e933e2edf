// What a command is to the parser: a name, one line of help, the options it declares and what it does. A
// command's file knows neither the parser's library nor the exit codes: it throws, cli/main.cpp answers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace rewire::cli {

/// Where a command declares its options. Each call binds one to a variable that must outlive the parse. A
/// name without dashes is a positional argument.
class Options {
 public:
  enum class Need : std::uint8_t { optional, required };

  void text(const std::string& name, std::string& target, const std::string& doc, Need need = Need::optional);
  /// One of `choices`; a key of `synonyms` is another word for one.
  void choice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
              const std::string& doc, const std::map<std::string, std::string>& synonyms = {});
  /// May stand more than once, one value each time.
  void list(const std::string& name, std::vector<std::string>& target, const std::string& doc);
  /// A positional argument of one value or more.
  void texts(const std::string& name, std::vector<std::string>& target, const std::string& doc);
  void integer(const std::string& name, std::int64_t& target, std::int64_t minimum, const std::string& doc,
               Need need = Need::optional);
  /// Finite and at least `minimum`.
  void number(const std::string& name, double& target, double minimum, const std::string& doc);
  void flag(const std::string& name, bool& target, const std::string& doc);

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

/// Parses the arguments (without the program's name), sets up the log and runs the command; also answers
/// --help and --version. UserError on anything it does not know, with the nearest match.
void parse_and_run(const std::vector<Command>& commands, std::vector<std::string> arguments);

}  // namespace rewire::cli

// The table of hostile inputs: a row is what lies in a folder, a command that meets it, and what it has to
// answer. tests/hostile/*_cases.cpp hold the rows; judge.h says what every answer is held to.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/hostile/process.h"
#include "tests/hostile/steps.h"

namespace rewire::test {

/// In words and phrases, "@" before a slash, or alone, stands for the folder of the case.
std::string in_folder(std::string text, const std::string& folder);

/// What a case's command has to end with.
struct Expectation {
  int code = 2;
  std::vector<std::string> phrases;  // all in its one line on stderr; none: stderr is empty
  /// Looks at what it printed and made: "", or what is wrong.
  std::function<std::string(const Ended&, const std::string& folder)> check;
  int lines = 1;  // of a fault in text that is shown with its place: the line, the text and a caret
};

/// A refusal: one line that has all these phrases in it.
template <class... Phrases>
Expectation refused(Phrases... phrases) {
  return {2, {std::move(phrases)...}, {}};
}
/// Code 0 and no word.
inline Expectation fine(std::function<std::string(const Ended&, const std::string&)> check = nullptr) {
  return {0, {}, std::move(check)};
}

struct Case {
  std::string name;  // SUBJECT: WHAT
  std::vector<Step> steps;
  Words command;  // behind `rewire`
  Expectation expected;
  Words environment;
};

/// The rows of one subject: a command, and the steps before those of the row.
class Table {
 public:
  Table(std::vector<Case>& cases, std::string subject, Words command = {}, std::vector<Step> base = {},
        Words environment = {})
      : cases_(cases),
        subject_(std::move(subject)),
        command_(std::move(command)),
        base_(std::move(base)),
        environment_(std::move(environment)) {}

  void row(const std::string& what, const std::vector<Step>& steps, Expectation expected) {
    row(what, command_, steps, std::move(expected));
  }
  /// With another command.
  void row(const std::string& what, const Words& command, const std::vector<Step>& steps,
           Expectation expected) {
    std::vector<Step> all = base_;
    all.insert(all.end(), steps.begin(), steps.end());
    cases_.push_back({subject_ + ": " + what, std::move(all), command, std::move(expected), environment_});
  }

 private:
  std::vector<Case>& cases_;
  const std::string subject_;
  const Words command_;
  const std::vector<Step> base_;
  const Words environment_;
};

}  // namespace rewire::test

// What README.md and docs/start/tour.md show of commands that print the same on every machine.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

using Lines = std::vector<std::string>;

/// A command of the README, and the lines below it.
struct Shown {
  std::string command;  // "rewire models"
  Lines lines;
};

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// All that begin with "$ rewire", in blocks of four spaces.
std::vector<Shown> shown_in(const std::string& file) {
  const std::string indent = "    ", prompt = indent + "$ rewire ";
  std::vector<Shown> list;
  bool inside = false;
  for (const std::string& line : lines_of(read_text(file))) {
    if (line.starts_with(prompt)) {
      list.push_back({line.substr(indent.size() + 2), {}});
      inside = true;
    } else if (inside && line.starts_with(indent)) {
      list.back().lines.push_back(line.substr(indent.size()));
    } else if (inside && line.empty()) {
      list.back().lines.emplace_back();
    } else {
      inside = false;
    }
  }
  for (Shown& shown : list) {
    while (!shown.lines.empty() && shown.lines.back().empty()) shown.lines.pop_back();
  }
  return list;
}

bool is_left_out(const std::string& line) {
  const std::size_t at = line.find("…");
  return at != std::string::npos && line.find_first_not_of(' ') == at;
}

/// The first line that is not where it should be: at the top or behind the one before, or behind lines that
/// were left out anywhere below; or the first that is printed and neither shown nor left out. "": there is
/// none.
std::string missing(const Lines& shown, const Lines& printed) {
  std::size_t next = 0;
  bool skips = false;
  for (const std::string& line : shown) {
    if (is_left_out(line)) {
      skips = true;
      continue;
    }
    const auto begin = printed.begin() + static_cast<std::ptrdiff_t>(next);
    const auto at = skips ? std::find(begin, printed.end(), line) : begin;
    if (at == printed.end() || *at != line) return line;
    next = static_cast<std::size_t>(at - printed.begin()) + 1;
    skips = false;
  }
  return skips || next == printed.size() ? "" : printed[next];
}

TEST_CASE("The README and the tour show what commands print") {
  std::size_t held = 0;
  std::vector<Shown> all = shown_in(REWIRE_README);
  for (Shown& shown : shown_in(REWIRE_GUIDES "/tour.md")) all.push_back(std::move(shown));
  for (const Shown& shown : all) {
    std::istringstream words(shown.command);
    Words arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    arguments.erase(arguments.begin());
    if (arguments[0] == "verify") continue;  // its last digits are a processor's own
    const bool has_plugin = shown.command.find(" orthogonal") == std::string::npos ||
                            std::filesystem::exists(REWIRE_PLUGIN_FOLDER "/orthogonal.so");
    if (!has_plugin) continue;
    ++held;
    CAPTURE(shown.command);
    const Outcome outcome = rewire_command(arguments);
    CHECK(outcome.code == 0);
    CHECK(outcome.err.empty());
    REQUIRE_FALSE(shown.lines.empty());
    CHECK(missing(shown.lines, lines_of(outcome.out)).empty());
  }
  CHECK(held >= 1);
}

TEST_CASE("A line that is not printed, or elsewhere, is noticed") {
  const Lines printed = {"a", "b", "c", "d", "c"};
  CHECK(missing({"a", "b"}, printed) == "c");
  CHECK(missing({"a", "b", "…"}, printed).empty());
  CHECK(missing(printed, printed).empty());
  CHECK(missing({"a", "…", "c", "d", "c"}, printed).empty());
  CHECK(missing({"  …", "d", "c"}, printed).empty());
  CHECK(missing({"a", "c"}, printed) == "c");
  CHECK(missing({"b"}, printed) == "b");
  CHECK(missing({"…", "x"}, printed) == "x");
  CHECK(missing({"…", "d", "…", "d"}, printed) == "d");
}

}  // namespace
}  // namespace rewire::test

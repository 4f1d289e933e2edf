// What commands declare, held to what they take: each has examples, these parse, and no command line of the docs names an
// option that there is not.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "cli/command.h"
#include "cli/help.h"
#include "ir/error.h"
#include "runtime/plugin/skeleton.h"
#include "tests/support/catch.h"

namespace rewire::cli {
namespace {

namespace fs = std::filesystem;

/// The words of a command line behind `rewire`, as a shell takes them apart; what stands behind a comment, a pipe or a
/// redirection is left out.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, any = false;
  for (const char c : line + ' ') {
    if (c == '\'') {
      quoted = !quoted;
      any = true;
    } else if (quoted || (c != ' ' && c != '\t' && c != '\n')) {
      word += c;
      any = true;
    } else if (any) {
      if (word == "#" || word == "|" || word == ">" || word == "&&" || word == "\\") break;
      words.push_back(word);
      word.clear();
      any = false;
    }
  }
  if (!words.empty()) words.erase(words.begin());
  return words;
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// The command lines of a page: blocks of four blanks, fenced blocks, and `code` in a line.
std::vector<std::string> command_lines(const std::string& page) {
  static const std::regex kBlock(R"((?:^|\n)(?:    )?(?:\$ )?(rewire [^\n]*))"), kInline("`(rewire [^`]*)`");
  std::vector<std::string> lines;
  for (const std::regex& pattern : {kBlock, kInline}) {
    for (std::sregex_iterator match(page.begin(), page.end(), pattern), end; match != end; ++match)
      lines.push_back((*match)[1]);
  }
  return lines;
}

std::vector<fs::path> pages() {
  std::vector<fs::path> files = {fs::path(REWIRE_SOURCE_DIR) / "README.md"};
  for (const char* folder : {"docs", "bench", "examples"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(REWIRE_SOURCE_DIR) / folder)) {
      if (entry.path().extension() == ".md") files.push_back(entry.path());
    }
  }
  return files;
}

TEST_CASE("Every command has examples, and each of them parses as this command") {
  for (const Command& command : commands()) {
    CAPTURE(command.name);
    const Declaration declaration = declaration_of(command);
    CHECK_FALSE(declaration.examples.empty());
    for (const Example& example : declaration.examples) {
      CAPTURE(example.line);
      CHECK(example.line.starts_with("rewire " + command.name));
      CHECK_FALSE(example.doc.empty());
      const std::vector<Command> fresh = commands();
      CHECK_NOTHROW(parse_only(fresh, words_of(example.line)));
      std::vector<std::string> words = words_of(example.line);
      const Command* found = find_command(fresh, words);
      REQUIRE(found != nullptr);
      CHECK(found->name == command.name);
    }
  }
}

TEST_CASE("A command line that does not parse is refused without being run") {
  CHECK_THROWS_AS(parse_only(commands(), words_of("rewire dump vit_tiny_28 --stage fuse")), UserError);
  CHECK_THROWS_AS(parse_only(commands(), words_of("rewire dmp vit_tiny_28")), UserError);
  CHECK_THROWS_AS(parse_only(commands(), {}), UserError);
}

/// The text as a page shows it.
std::string indented(const std::string& text) {
  std::string shown;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) shown += (line.empty() ? "" : "    " + line) + '\n';
  return shown;
}

TEST_CASE(
    "The guides to plugins show the one that `plugin new` writes, and formulas in C++ that a test compiles") {
  const auto files = runtime::plugin_skeleton("my_strategy");
  const auto source =
      std::ranges::find(files, "my_strategy.cpp", &std::pair<std::string, std::string>::first);
  REQUIRE(source != files.end());
  const fs::path root = REWIRE_SOURCE_DIR;
  CHECK(text_of(root / "docs/start/first-plugin.md").find("\n" + indented(source->second)) !=
        std::string::npos);
  const std::string by_hand = text_of(root / "tests/plugins/formula_by_hand.cpp");
  const std::size_t first = by_hand.find("#include"), last = by_hand.find("\nREWIRE_PLUGIN");
  REQUIRE(last != std::string::npos);
  CHECK(text_of(root / "docs/guide/sdk.md").find("\n" + indented(by_hand.substr(first, last - first))) !=
        std::string::npos);
}

TEST_CASE("Every option that a command line of the docs has is one of its command") {
  const std::vector<Command> all = commands();
  std::size_t held = 0;
  for (const fs::path& page : pages()) {
    for (const std::string& line : command_lines(text_of(page))) {
      CAPTURE(page, line);
      std::vector<std::string> words = words_of(line);
      const Command* command = find_command(all, words);
      if (command == nullptr) continue;
      const Declaration declaration = declaration_of(*command);
      for (std::string word : words) {
        std::erase_if(word, [](char c) { return c == '[' || c == ']' || c == ','; });
        if (!word.starts_with("--") || word == "--") continue;
        const std::string name = word.substr(0, word.find('='));
        CAPTURE(name);
        CHECK(std::ranges::any_of(declaration.options,
                                  [&](const OptionInfo& option) { return option.name == name; }));
        ++held;
      }
    }
  }
  CHECK(held > 100);
}

TEST_CASE("Pages of help fit 80 columns, and name every option and every choice") {
  const std::vector<Command> all = commands();
  const auto check_width = [](const std::string& page) {
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(line.size() <= kPageWidth);
      CHECK_FALSE(line.ends_with(' '));
    }
  };
  const std::string list = help_of_all(all);
  check_width(list);
  for (const Command& command : all) {  // in one line
    CAPTURE(command.name);
    CHECK_THAT(list, REWIRE_CATCH_CONTAINS(' ' + command.doc + '\n'));
  }
  for (const Command& command : all) {
    const Declaration declaration = declaration_of(command);
    const std::string page = help_of(command, declaration, commands_of(all, command.name));
    CAPTURE(page);
    check_width(page);
    for (const OptionInfo& option : declaration.options) {
      CHECK_THAT(page, REWIRE_CATCH_CONTAINS("\n  " + option.name));
      CHECK_FALSE(option.doc.empty());
      for (const std::string& choice : option.choices) CHECK_THAT(page, REWIRE_CATCH_CONTAINS(choice));
    }
  }
}

TEST_CASE("Text is wrapped between words, by the columns that it takes") {
  CHECK(wrapped("one two three", 7) == "one two\nthree");
  CHECK(wrapped("one two three", 9, 2) == "one two\n  three");
  CHECK(wrapped("é é é é", 3) == "é é\né é");
  CHECK(wrapped("unbreakable x", 4) == "unbreakable\nx");
  CHECK(wrapped("", 4).empty());
}

}  // namespace
}  // namespace rewire::cli

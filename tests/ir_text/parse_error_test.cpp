// Texts that must be refused. Each file of errors/ begins with "// error: line:column: message"; the rest of
// what is thrown, the source line and the caret, follows from it.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/text.h"
#include "tests/support/catch.h"

namespace rewire::ir {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::filesystem::path> error_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(IR_TEXT_ERRORS)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string line_of(const std::string& text, int number) {
  std::istringstream stream(text);
  std::string line;
  for (int i = 0; i < number; ++i) {
    line.clear();
    std::getline(stream, line);
  }
  return line;
}

std::string error_of(const std::string& text, const std::string& name) {
  try {
    parse(text, name);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("Every faulty text is refused with its place, its line and a caret", "[ir][text]") {
  const std::vector<std::filesystem::path> files = error_files();
  REQUIRE(files.size() > 50);
  for (const std::filesystem::path& path : files) {
    const std::string name = path.filename().string();
    const std::string text = read_text(path);
    CAPTURE(name);
    const std::string prefix = "// error: ";
    REQUIRE(text.substr(0, prefix.size()) == prefix);
    const std::string place_and_message = text.substr(prefix.size(), text.find('\n') - prefix.size());
    int line = 0;
    int column = 0;
    REQUIRE(std::sscanf(place_and_message.c_str(), "%d:%d:", &line, &column) == 2);
    const std::string caret = std::string(static_cast<std::size_t>(column - 1), ' ') + "^";
    CHECK(error_of(text, name) == name + ":" + place_and_message + "\n" + line_of(text, line) + "\n" + caret);
  }
}

TEST_CASE("An error in one huge line shows a window of it", "[ir][text]") {
  const std::string text = "module @m { attribute a = \"" + std::string(100000, 'x') + "\" & }";
  const std::string error = error_of(text, "huge.rir");
  CHECK(error.size() < 400);
  CHECK_THAT(error, REWIRE_CATCH_CONTAINS("huge.rir:1:100030: unexpected character '&'"));
  const std::size_t second = error.find('\n') + 1;
  const std::size_t third = error.find('\n', second) + 1;
  CHECK(error[second + (error.size() - third - 1)] == '&');
}

TEST_CASE("A control character in a faulty line cannot reach the terminal", "[ir][text]") {
  CHECK_THAT(error_of("module @m {\n\tattribute a = \"\x1b[31m\" &\n}", "f"),
             REWIRE_CATCH_CONTAINS("f:2:24: unexpected character '&'\n attribute a = \" [31m\" &\n"));
}

TEST_CASE("Texts made to exhaust memory or time are refused quickly", "[ir][text]") {
  SECTION("deep nesting is no recursion") {
    CHECK_THAT(error_of("module @m { attribute a = " + std::string(1000000, '['), "f"),
               REWIRE_CATCH_CONTAINS("expected a value"));
  }
  SECTION("ranks do not multiply") {
    std::string shape = "1";
    for (int i = 0; i < 100000; ++i) shape += ",1";
    CHECK_THAT(error_of("module @m { param @w : f32[" + shape + "] }", "f"),
               REWIRE_CATCH_CONTAINS("at most 16 axes"));
  }
  SECTION("attributes are limited") {
    std::string text = "module @m {\n";
    for (int i = 0; i < 5000; ++i) text += "attribute a" + std::to_string(i) + " = 1\n";
    CHECK_THAT(error_of(text + "}", "f"), REWIRE_CATCH_CONTAINS("more than 1000 attributes"));
  }
  SECTION("an inferred type is limited as a stated one is") {
    CHECK_THAT(
        error_of("module @m { func @f(%a: f32[1073741824,1]) -> () { %0 = matmul %a, %a {transpose_b = "
                 "true} return } }",
                 "f"),
        REWIRE_CATCH_CONTAINS("2^40 elements or more"));
  }
}

}  // namespace rewire::ir

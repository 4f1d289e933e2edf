#include "cli/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <variant>
#include <vector>

#include "formula/cpp.h"
#include "formula/language.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "ir/text_error.h"
#include "runtime/io/files.h"
#include "runtime/plugin/plugin.h"
#include "runtime/recipe/flat_values.h"

namespace rewire::cli {
namespace {

/// Returns the text with one space for each run of blanks. In a list of entries, a semicolon takes the place of the end
/// of a line.
std::string normalised(std::string_view text, bool is_list) {
  std::string result;
  int depth = 0;  // in brackets a line may end
  for (const char c : text) {
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    const bool ends_line = c == '\n' && is_list && depth <= 0;
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
      result += c;
      continue;
    }
    while (!result.empty() && result.back() == ' ') result.pop_back();
    if (result.empty()) continue;
    if (ends_line && result.back() != ';') result += ';';
    result += ' ';
  }
  while (!result.empty() && (result.back() == ' ' || (is_list && result.back() == ';'))) result.pop_back();
  return result;
}

/// The parameters that are lists of entries, name = formula.
bool is_list(std::string_view key) {
  constexpr std::string_view kLists[] = {"weights", "let", "report", "init", "after"};
  return std::ranges::find(kLists, key) != std::end(kLists);
}

std::string in_quotes(const std::string& text, const std::string& place) {
  if (text.find_first_of("\"'") != std::string::npos) user_error("{}: a formula has no quotes", place);
  return '"' + text + '"';
}

}  // namespace

std::string spec_of_join(const std::string& expression) {
  if (expression.ends_with(".toml")) user_error("--join takes a formula; write --formula {}", expression);
  return "formula:join=" + in_quotes(normalised(expression, false), "--join");
}

std::string spec_of_formula_file(const std::string& path) {
  constexpr std::size_t kMostBytes = 1 << 20;
  const std::vector<std::byte> bytes = runtime::read_file(runtime::FilePlace::of_user(path), kMostBytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string spec;
  for (const auto& [key, value] : runtime::flat_values(text, path)) {
    if (key.find('.') != std::string::npos)
      user_error("{}: {} is in a table: write join = \"...\", without a line [{}] before it", path, key,
                 key.substr(0, key.find('.')));
    const std::string text_of_value = runtime::flat_text(value);  // a filter may be a number
    const std::string* formula = &text_of_value;
    spec += fmt::format("{}{}={}", spec.empty() ? "formula:" : ",", key,
                        in_quotes(normalised(*formula, is_list(key)), fmt::format("{}: {}", path, key)));
  }
  if (spec.empty()) user_error("{} has no formula: write, for example, join = \"x + 0.5 * f\"", path);
  return spec;
}

std::string source_of_formulas(const std::string& name, const std::string& spec) {
  const runtime::PluginSpec formulas = runtime::parse_plugin_spec(spec);
  for (const auto& [key, value] : formulas.values)
    if (!formula::is_parameter(key))
      user_error(
          "'{}' is not part of a formula: leave it out, and give it to the new plugin: --plugin "
          "./build/{}.so:{}={}",
          key, name, key, value);
  try {
    return formula::plugin_source(name, formulas.values);
  } catch (const formula::Error& error) {
    throw ir::TextError(few_lines(error.what()));
  }
}

}  // namespace rewire::cli

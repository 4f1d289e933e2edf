#include "runtime/recipe/toml_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/recipe/beyond_ascii.h"
#include "runtime/recipe/key_depth.h"

namespace rewire::runtime {

toml::table parse_toml(std::string_view text, std::string_view file_name) {
  if (text.size() > kLargestToml) {
    user_error("{}: {} bytes are too many for a recipe: the maximum is {}", file_name, text.size(),
               kLargestToml);
  }
  if (const std::optional<int> line = line_of_deep_key(text)) {
    user_error("{}:{}: a key has more than {} parts", file_name, *line, kMostKeyParts);
  }
  const BeyondAscii swapped(text, file_name);
  try {
    toml::table table = toml::parse(swapped.text(), file_name);
    swapped.restore(table);
    return table;
  } catch (const toml::parse_error& error) {
    // toml++ quotes the text with its line breaks.
    std::string description = swapped.restored(error.description());
    std::ranges::replace_if(description, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
    user_error("{}: {}", Place::of(file_name, error.source()).text, description);
  }
}

std::string toml_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";  // else TOML reads an integer
  return text;
}

std::string describe(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return fmt::format("the string '{}'", printable(node.ref<std::string>()));
    case toml::node_type::integer:
      return fmt::format("the integer {}", node.ref<std::int64_t>());
    case toml::node_type::floating_point:
      return fmt::format("the number {}", node.ref<double>());
    case toml::node_type::boolean:
      return node.ref<bool>() ? "true" : "false";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a section";
    default:
      return "a date or time";
  }
}

const std::string& without_nul(const std::string& text, std::string_view place, std::string_view key) {
  if (text.find('\0') != std::string::npos)
    user_error("{}: {} = '{}' contains a NUL character: remove it", place, printable(key), printable(text));
  return text;
}

Place Place::of(std::string_view file_name, const toml::source_region& source) {
  return {fmt::format("{}:{}", file_name, source.begin.line)};
}

}  // namespace rewire::runtime

// Takes a plugin spec apart: name[:key=value[,key=value]...]. Values stay text; the schema gives them
// meaning. A value in quotes may hold commas.
#include <algorithm>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {
namespace {

constexpr std::string_view kQuotes = "\"'";

bool starts_with_quote(std::string_view value) {
  return !value.empty() && kQuotes.find(value.front()) != std::string_view::npos;
}

/// Returns the length of the item at the start of `rest`: up to the first comma outside a quoted value.
/// Throws UserError if a quote is not closed, or if text follows it.
std::size_t item_length(std::string_view rest, std::string_view spec) {
  const std::size_t comma = rest.find(','), equals = rest.find('=');
  if (equals > comma || equals == std::string_view::npos || !starts_with_quote(rest.substr(equals + 1)))
    return std::min(comma, rest.size());
  const std::size_t close = rest.find(rest[equals + 1], equals + 2);
  if (close == std::string_view::npos)
    user_error("plugin spec '{}': the quote of '{}' is not closed", printable(spec),
               printable(rest.substr(0, equals)));
  if (close + 1 < rest.size() && rest[close + 1] != ',')
    user_error("plugin spec '{}': a comma must follow the closing quote of '{}'", printable(spec),
               printable(rest.substr(0, equals)));
  return close + 1;
}

std::string_view unquoted(std::string_view value) {
  return starts_with_quote(value) ? value.substr(1, value.size() - 2) : value;
}

}  // namespace

PluginSpec parse_plugin_spec(std::string_view text) {
  PluginSpec spec;
  const std::size_t colon = text.find(':');
  spec.name = text.substr(0, colon);
  if (spec.name.empty()) {
    user_error("plugin spec '{}' has no name: write name or name:key=value,key=value", printable(text));
  }
  if (spec.name.ends_with('/')) {
    user_error("plugin spec '{}' names a folder: write the path of the library in it, or --plugin-path {}",
               printable(text), printable(spec.name));
  }
  if (colon == std::string_view::npos) return spec;

  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const std::size_t length = item_length(rest, text);
    const std::string_view item = rest.substr(0, length);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      user_error(
          "plugin spec '{}': '{}' is not key=value (join the values of a list by +, and put a value "
          "that holds a comma in quotes)",
          printable(text), printable(item));
    }
    const std::string key(item.substr(0, equals));
    if (std::ranges::any_of(spec.values, [&](const auto& value) { return value.first == key; })) {
      user_error("plugin spec '{}' sets '{}' twice", printable(text), printable(key));
    }
    spec.values.emplace_back(key, unquoted(item.substr(equals + 1)));
    if (length == rest.size()) return spec;
    rest.remove_prefix(length + 1);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  }
}

}  // namespace rewire::runtime

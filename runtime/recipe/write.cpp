// A Recipe as TOML, from the table of keys.
#include <fmt/format.h>

#include <iterator>

#include "runtime/recipe/keys.h"
#include "runtime/recipe/recipe.h"
#include "runtime/recipe/toml_text.h"

namespace rewire::runtime {
namespace {

std::string toml_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string toml_text(bool value) {
  return value ? "true" : "false";
}

std::string toml_text(std::int64_t value) {
  return fmt::format("{}", value);
}

using runtime::toml_text;  // of a number

std::string toml_text(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(toml_text(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

/// "" for an empty optional.
template <class T>
std::string target_text(const T& value) {
  return toml_text(value);
}
template <class T>
std::string target_text(const std::optional<T>& value) {
  return value ? toml_text(*value) : std::string();
}

void write_plugins(const std::vector<PluginSpec>& plugins, std::string& out) {
  for (const PluginSpec& plugin : plugins) {
    fmt::format_to(std::back_inserter(out), "\n[[plugin]]\nname = {}\n", toml_text(plugin.name));
    for (const auto& [name, value] : plugin.values) {
      fmt::format_to(std::back_inserter(out), "{} = {}\n", toml_text(name), toml_text(value));
    }
  }
}

}  // namespace

std::string to_toml(const Recipe& recipe) {
  Recipe copy = recipe;
  std::string out;
  std::string_view section;
  for (const RecipeKey& key : recipe_keys(copy)) {
    const std::string value = std::visit([](const auto* target) { return target_text(*target); }, key.target);
    if (key.section != section) {
      if (section == "model") write_plugins(recipe.plugins, out);
      section = key.section;
      fmt::format_to(std::back_inserter(out), "\n[{}]\n", section);
    }
    if (!value.empty() && key.has_effect(recipe))
      fmt::format_to(std::back_inserter(out), "{} = {}\n", key.name, value);
  }
  return out;
}

}  // namespace rewire::runtime

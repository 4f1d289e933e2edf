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

std::string toml_text(const ir::Attribute& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return toml_text(*text);
  if (const auto* number = std::get_if<double>(&value)) return runtime::toml_text(*number);
  if (const auto* numbers = std::get_if<ir::Doubles>(&value)) {
    std::vector<std::string> texts;
    for (const double element : *numbers) texts.push_back(runtime::toml_text(element));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  return ir::value_text(value);
}

void write_plugins(const std::vector<PluginSpec>& plugins, std::string& out) {
  for (const PluginSpec& plugin : plugins) {
    fmt::format_to(std::back_inserter(out), "\n[[plugin]]\nname = {}\n", toml_text(plugin.name));
    for (const auto& [name, value] : plugin.values) {
      fmt::format_to(std::back_inserter(out), "{} = {}\n", toml_text(name), toml_text(value));
    }
  }
}

/// Writes the views. A view has only those [transforms] values that it sets itself.
void write_views(const std::vector<ViewSpec>& views, std::string& out) {
  for (ViewSpec view : views) {
    out += "\n[[view]]\n";
    for (const RecipeKey& key : view_keys(view)) {
      const bool is_own =
          !std::holds_alternative<ir::Attributes*>(key.target) || view.values.has(key.spec.name);
      if (is_own) fmt::format_to(std::back_inserter(out), "{} = {}\n", key.spec.name, toml_text(key.value()));
    }
  }
}

}  // namespace

std::string to_toml(const Recipe& recipe) {
  Recipe copy = recipe;
  copy.transforms = transform_values(recipe);
  copy.views = views(recipe);
  copy.preset = "none";
  std::string out;
  std::string section;
  for (const RecipeKey& key : recipe_keys(copy)) {
    if (key.section != section) {
      if (section == "model") write_plugins(recipe.plugins, out);
      if (section == "transforms") write_views(copy.views, out);
      section = key.section;
      fmt::format_to(std::back_inserter(out), "\n[{}]\n", section);
    }
    if (key.has_effect(copy))
      fmt::format_to(std::back_inserter(out), "{} = {}\n", key.spec.name, toml_text(key.value()));
  }
  return out;
}

}  // namespace rewire::runtime

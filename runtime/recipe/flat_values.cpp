#include "runtime/recipe/flat_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "ir/schema.h"
#include "runtime/recipe/keys.h"
#include "runtime/recipe/toml_text.h"

namespace rewire::runtime {
namespace {

/// Returns the node's value as one of the kinds that recipes have.
FlatValue flat_value(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  const toml::array* list = node.as_array();
  if (list == nullptr) return describe(node);
  std::vector<std::string> items;
  for (const toml::node& item : *list) items.push_back(flat_text(flat_value(item)));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

void flatten(const toml::table& table, const std::string& prefix, FlatValues& values) {
  for (const auto& [key, node] : table) {
    const std::string path = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, path + ".", values);
    } else if (const toml::array* list = node.as_array(); list != nullptr && list->is_array_of_tables()) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        const toml::table& entry = *list->get_as<toml::table>(i);
        const auto name = entry["name"].value<std::string>();  // a plugin has one, a view has none
        flatten(entry, fmt::format("{}.{}.", path, name ? *name : std::to_string(i)), values);
      }
    } else {
      values[path] = flat_value(node);
    }
  }
}

/// Returns the value of each key as text, by its path.
std::map<std::string, std::string> texts_of(Recipe& recipe) {
  std::map<std::string, std::string> texts;
  for (const RecipeKey& key : recipe_keys(recipe)) texts.emplace(key.path(), ir::value_text(key.value()));
  return texts;
}

struct TextOfFlat {
  std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  std::string operator()(std::int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return toml_text(number); }
  std::string operator()(const std::string& text) const { return text; }
};

}  // namespace

FlatValues chosen_values(const Recipe& recipe) {
  Recipe asked = recipe, plain;
  const std::map<std::string, std::string> first = texts_of(plain);
  for (const RecipeKey& key : recipe_keys(asked)) {
    if (!key.selects) continue;
    const std::vector<RecipeKey> rows = recipe_keys(plain);  // again: a choice decides which keys exist
    std::ranges::find(rows, key.path(), &RecipeKey::path)->set(key.value());
  }
  const std::map<std::string, std::string> usual = texts_of(plain);
  FlatValues values = flat_values(to_toml(recipe), "recipe.toml");
  for (const RecipeKey& key : recipe_keys(asked)) {
    const auto& defaults = key.selects ? first : usual;
    const auto found = defaults.find(key.path());
    if (found != defaults.end() && found->second == ir::value_text(key.value())) values.erase(key.path());
  }
  std::erase_if(values, [](const auto& value) { return value.first.starts_with("plugin."); });
  return values;
}

FlatValues flat_values(std::string_view toml, std::string_view file_name) {
  FlatValues values;
  flatten(parse_toml(toml, file_name), "", values);
  return values;
}

std::string flat_text(const FlatValue& value) {
  return std::visit(TextOfFlat(), value);
}

}  // namespace rewire::runtime

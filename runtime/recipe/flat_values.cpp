#include "runtime/recipe/flat_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "runtime/recipe/toml_text.h"

namespace rewire::runtime {
namespace {

/// Of the kinds that recipes have.
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
        const auto name = entry["name"].value<std::string>();  // of a plugin; a view has none
        flatten(entry, fmt::format("{}.{}.", path, name ? *name : std::to_string(i)), values);
      }
    } else {
      values[path] = flat_value(node);
    }
  }
}

struct TextOfFlat {
  std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  std::string operator()(std::int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return toml_text(number); }
  std::string operator()(const std::string& text) const { return text; }
};

}  // namespace

FlatValues flat_values(std::string_view toml, std::string_view file_name) {
  FlatValues values;
  flatten(parse_toml(toml, file_name), "", values);
  return values;
}

std::string flat_text(const FlatValue& value) {
  return std::visit(TextOfFlat(), value);
}

}  // namespace rewire::runtime

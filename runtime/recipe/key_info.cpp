#include "runtime/recipe/key_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "models/model.h"

namespace rewire::runtime {
namespace {

std::vector<ir::NamedDoc> values_of(const RecipeKey& key) {
  if (key.path() == "model.name") return ir::named_docs(models::models());
  if (key.spec.kind == ir::ParameterKind::boolean) return {{"true"}, {"false"}};
  if (!key.residents.empty()) return key.residents;
  std::vector<ir::NamedDoc> values;
  for (const std::string& value : key.spec.values) values.push_back({value});
  return values;
}

}  // namespace

std::string_view KeyInfo::section() const {
  const std::size_t dot = path.find('.');
  return dot == std::string::npos ? std::string_view() : std::string_view(path).substr(0, dot);
}

std::string by_owner(const KeyInfo& key, std::string OwnedParameter::* what) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // a text and its owners
  for (const OwnedParameter& parameter : key.owners) {
    const auto same =
        std::ranges::find(groups, parameter.*what, [](const auto& group) { return group.first; });
    if (same == groups.end()) {
      groups.push_back({parameter.*what, {parameter.owner}});
    } else {
      same->second.push_back(parameter.owner);
    }
  }
  if (groups.size() < 2) return "";
  std::string text;
  for (const auto& [said, owners] : groups)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", fmt::join(owners, ", "),
                        said.empty() ? "none" : said);
  return text;
}

std::vector<KeyInfo> key_infos(const Recipe& recipe) {
  Recipe asked = recipe;
  std::vector<KeyInfo> infos;
  for (const RecipeKey& key : recipe_keys(asked)) {
    infos.push_back({.path = key.path(),
                     .kind = std::string(key.spec.kind_name()),
                     .range = key.spec.range(),
                     .default_value = ir::value_text(key.value()),
                     .doc = key.spec.doc,
                     .condition = key.only.text,
                     .values = values_of(key),
                     .owners = key.owners,
                     .is_path = key.spec.is_path,
                     .has_effect = key.has_effect(asked)});
  }
  return infos;
}

std::vector<KeyInfo> keys_named(std::string_view name) {
  std::string wanted(name);
  std::ranges::replace(wanted, '-', '_');
  const auto begins = [](std::string_view whole, std::string_view part) {
    return !part.empty() && whole.starts_with(part) && whole.substr(part.size()).starts_with('_');
  };
  std::vector<KeyInfo> same, alike;
  for (KeyInfo& key : key_infos({})) {
    const std::string_view own = std::string_view(key.path).substr(key.path.find('.') + 1);
    if (own == wanted) {
      same.push_back(std::move(key));
    } else if (begins(own, wanted) || begins(wanted, own)) {
      alike.push_back(std::move(key));
    }
  }
  return same.empty() ? alike : same;
}

}  // namespace rewire::runtime

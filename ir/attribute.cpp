#include "ir/attribute.h"

#include <algorithm>

#include "ir/error.h"

namespace rewire::ir {
namespace {

auto by_name = [](const auto& item, std::string_view name) { return item.first < name; };

}  // namespace

Attributes::Attributes(std::initializer_list<std::pair<std::string, Attribute>> items) {
  for (const auto& [name, value] : items) set(name, value);
}

void Attributes::set(std::string_view name, Attribute value) {
  auto it = std::lower_bound(items_.begin(), items_.end(), name, by_name);
  if (it != items_.end() && it->first == name) {
    it->second = std::move(value);
  } else {
    items_.emplace(it, std::string(name), std::move(value));
  }
}

void Attributes::erase(std::string_view name) {
  auto it = std::lower_bound(items_.begin(), items_.end(), name, by_name);
  if (it != items_.end() && it->first == name) items_.erase(it);
}

const Attribute* Attributes::find(std::string_view name) const {
  auto it = std::lower_bound(items_.begin(), items_.end(), name, by_name);
  return it != items_.end() && it->first == name ? &it->second : nullptr;
}

void Attributes::missing(std::string_view name) {
  internal_error("attribute '{}' is absent or of another kind", name);
}

}  // namespace rewire::ir

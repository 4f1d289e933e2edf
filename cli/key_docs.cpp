#include "cli/key_docs.h"

#include <algorithm>
#include <map>

#include "cli/topics_text.h"
#include "ir/registry.h"
#include "models/model.h"
#include "runtime/recipe/keys.h"

namespace rewire::cli {
namespace {

/// Markdown as plain text: no backticks, and links without their targets.
std::string plain(std::string_view markdown) {
  std::string text;
  for (std::size_t i = 0; i < markdown.size(); ++i) {
    if (markdown[i] == '`') continue;
    const std::size_t middle = markdown[i] == '[' ? markdown.find("](", i) : std::string_view::npos;
    const std::size_t end = middle == std::string_view::npos ? middle : markdown.find(')', middle);
    if (end != std::string_view::npos) {
      text += plain(markdown.substr(i + 1, middle - i - 1));
      i = end;
    } else {
      text += markdown[i];
    }
  }
  return text;
}

/// Without "(Memory, below)" and "(below)", which are said of the page.
std::string without_references(std::string text) {
  constexpr std::string_view kBelow = "below)";
  for (std::size_t end; (end = text.find(kBelow)) != std::string::npos;) {
    const std::size_t begin = text.rfind(" (", end);
    if (begin == std::string::npos) break;
    text.erase(begin, end + kBelow.size() - begin);
  }
  return text;
}

/// What the table says of each key.
std::map<std::string, std::string, std::less<>> meanings() {
  std::map<std::string, std::string, std::less<>> found;
  for (std::string_view rest = key_table(); !rest.empty();) {
    std::string_view row = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(row.size() + 1, rest.size()));
    if (!row.starts_with("| `")) continue;
    const std::string key = plain(row.substr(2, row.find(" |", 2) - 2));
    row.remove_suffix(std::min<std::size_t>(2, row.size()));
    for (int cell = 0; cell < 3; ++cell) row.remove_prefix(row.find(" | ") + 3);
    found.emplace(key, without_references(plain(row)));
  }
  return found;
}

std::vector<std::string> values_of(const runtime::RecipeKey& key) {
  if (key.path() == "model.name") {
    std::vector<std::string> names;
    for (const models::Model* model : models::models()) names.push_back(model->name);
    return names;
  }
  if (key.spec.kind == ir::ParameterKind::boolean) return {"true", "false"};
  return key.spec.values;
}

}  // namespace

std::string_view KeyDoc::section() const {
  const std::size_t dot = path.find('.');
  return dot == std::string::npos ? std::string_view() : std::string_view(path).substr(0, dot);
}

std::vector<KeyDoc> keys_named(std::string_view name) {
  std::string wanted(name);
  std::ranges::replace(wanted, '-', '_');
  const auto begins = [](std::string_view whole, std::string_view part) {
    return !part.empty() && whole.starts_with(part) && whole.substr(part.size()).starts_with('_');
  };
  std::vector<KeyDoc> same, alike;
  for (KeyDoc& key : key_docs({})) {
    const std::string_view own = std::string_view(key.path).substr(key.path.find('.') + 1);
    if (own == wanted) {
      same.push_back(std::move(key));
    } else if (begins(own, wanted) || begins(wanted, own)) {
      alike.push_back(std::move(key));
    }
  }
  return same.empty() ? alike : same;
}

std::vector<KeyDoc> key_docs(const runtime::Recipe& recipe) {
  static const auto texts = meanings();
  runtime::Recipe asked = recipe;
  std::vector<KeyDoc> docs;
  for (const runtime::RecipeKey& key : runtime::recipe_keys(asked)) {
    KeyDoc& doc = docs.emplace_back();
    doc.path = key.path();
    doc.kind = key.spec.kind_name();
    doc.range = key.spec.range();
    doc.default_value = ir::value_text(key.value());
    const auto text = texts.find(doc.path);
    doc.doc = text == texts.end() ? key.spec.doc : text->second;
    doc.condition = key.only.text;
    doc.values = values_of(key);
    doc.is_path = key.spec.is_path;
    doc.has_effect = key.has_effect(asked);
  }
  return docs;
}

}  // namespace rewire::cli

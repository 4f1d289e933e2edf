// TOML into a Recipe.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "ir/error.h"
#include "models/model.h"
#include "runtime/io/files.h"
#include "runtime/recipe/keys.h"
#include "runtime/recipe/recipe.h"
#include "runtime/recipe/toml_text.h"

namespace rewire::runtime {
namespace {

constexpr std::string_view kPluginSection = "plugin", kViewSection = "view";

/// Converts a TOML value to the key's kind. RecipeKey::set checks its bounds.
class ValueReader {
 public:
  ValueReader(const RecipeKey& key, const Place& place) : key_(key), place_(place) {}

  void read(const toml::node& node) const {
    const ir::Attribute value = convert(node);
    try {
      key_.set(value);
    } catch (const UserError& error) {
      user_error("{}: {}", place_.text, error.what());
    }
  }

 private:
  [[noreturn]] void wrong_kind(const toml::node& node) const {
    user_error("{}: {} takes {}, not {}", place_.text, key_.path(), key_.spec.takes(), describe(node));
  }

  ir::Attribute convert(const toml::node& node) const {
    switch (key_.spec.kind) {
      case ir::ParameterKind::boolean:
        if (!node.is_boolean()) wrong_kind(node);
        return node.ref<bool>();
      case ir::ParameterKind::integer:
        if (!node.is_integer()) wrong_kind(node);
        return node.ref<std::int64_t>();
      case ir::ParameterKind::number:
        if (!node.is_number()) wrong_kind(node);
        return number(node);
      case ir::ParameterKind::choice:
        // auto|true|false may be written as a boolean.
        if (node.is_boolean() && has_choice(word_of(node.ref<bool>()))) return word_of(node.ref<bool>());
        [[fallthrough]];
      case ir::ParameterKind::text:
        if (key_.check_words != nullptr && node.is_array()) return words(*node.as_array());
        if (!node.is_string()) wrong_kind(node);
        return without_nul(node.ref<std::string>(), place_.text, key_.path());
      case ir::ParameterKind::numbers:
        break;
    }
    const toml::array* array = node.as_array();
    if (array == nullptr) wrong_kind(node);
    ir::Doubles numbers;
    for (const toml::node& element : *array) {
      if (!element.is_number()) {
        user_error("{}: {} takes {}; element {} is {}", place_.text, key_.path(), key_.spec.takes(),
                   numbers.size(), describe(element));
      }
      numbers.push_back(number(element));
    }
    return numbers;
  }

  std::string words(const toml::array& list) const {
    std::string text;
    for (const toml::node& element : list) {
      if (!element.is_string()) wrong_kind(element);
      text += (text.empty() ? "" : "+") + without_nul(element.ref<std::string>(), place_.text, key_.path());
    }
    return text;
  }

  static std::string word_of(bool value) { return value ? "true" : "false"; }
  bool has_choice(const std::string& word) const {
    return std::ranges::find(key_.spec.values, word) != key_.spec.values.end();
  }

  static double number(const toml::node& node) {
    return node.is_integer() ? static_cast<double>(node.ref<std::int64_t>()) : node.ref<double>();
  }

  const RecipeKey& key_;
  const Place& place_;
};

/// Returns a plugin's value in its text form: booleans as true|false, lists joined by '+'.
std::string plugin_value_text(const toml::node& node, const Place& place, std::string_view key) {
  switch (node.type()) {
    case toml::node_type::string:
      return without_nul(node.ref<std::string>(), place.text, fmt::format("plugin parameter '{}'", key));
    case toml::node_type::integer:
      return fmt::format("{}", node.ref<std::int64_t>());
    case toml::node_type::floating_point:
      return fmt::format("{}", node.ref<double>());
    case toml::node_type::boolean:
      return node.ref<bool>() ? "true" : "false";
    case toml::node_type::array: {
      std::string text;
      for (const toml::node& element : *node.as_array()) {
        if (element.is_array()) break;
        text += (text.empty() ? "" : "+") + plugin_value_text(element, place, key);
      }
      if (!text.empty() &&
          std::ranges::none_of(*node.as_array(), [](const toml::node& e) { return e.is_array(); })) {
        return text;
      }
      user_error("{}: plugin parameter '{}' takes a value or a non-empty list, not a list of lists",
                 place.text, printable(key));
    }
    default:
      user_error("{}: plugin parameter '{}' takes a value, not {}", place.text, printable(key),
                 describe(node));
  }
}

class RecipeReader {
 public:
  RecipeReader(Recipe& recipe, std::string_view file_name) : recipe_(recipe), file_name_(file_name) {
    adopt_objective();
    keys_ = recipe_keys(recipe);
  }

  /// Checks the keys that were read since the last call. Throws UserError for a key that has no effect in
  /// this recipe. `defaults`: allows such a key if it has its default value.
  void check_effects(bool defaults) {
    Recipe fresh;
    const std::vector<RecipeKey> unset = recipe_keys(fresh);
    for (const auto& [index, place] : given_) {
      const RecipeKey& key = keys_[index];
      if (key.has_effect(recipe_) || (defaults && key.value() == unset[index].value())) continue;
      user_error("{}: {} has no effect here, it needs {}: remove it", place.text, key.path(), key.only.text);
    }
    given_.clear();
  }
  void forget_given() { given_.clear(); }

  /// A preset has no effect on a recipe that sets all of its keys itself, as a run's recipe does.
  void check_preset() const {
    const TransformPreset& preset = find_preset(recipe_.preset);
    const bool sets_all = std::ranges::all_of(
        preset.values, [&](const auto& value) { return recipe_.transforms.has(value.first); });
    const bool sets_views = preset.views.empty() || !recipe_.views.empty();
    if (!preset.values.empty() && sets_all && sets_views) {
      user_error(
          "transforms.preset={}: the recipe sets all of its keys itself: remove the preset or the keys",
          recipe_.preset);
    }
  }

  void read_text(std::string_view text) {
    const toml::table root = parse_toml(text, file_name_);
    for (const auto& [key, node] : root) {
      const std::string_view name = key.str();
      if (name == kPluginSection) {
        read_plugins(node);
      } else if (name == kViewSection) {
        read_views(node);
      } else if (const toml::table* section = node.as_table()) {
        read_section(key, *section);
      } else {
        read_value("", key, node);
      }
    }
  }

  void read_override(const std::string& text, const Place& place) {
    const std::size_t equals = text.find('=');
    if (text.size() > kLargestToml)
      user_error("{}: {} bytes are too many for a value", place.text, text.size());
    if (equals == std::string::npos || equals == 0)
      user_error("{}: it takes the form section.key=value", place.text);
    const std::string path = current_path(text.substr(0, equals));
    const std::size_t dot = path.find('.');
    const std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
    const std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
    if (section == kPluginSection) user_error("{}: plugins are set by --plugin NAME:key=value", place.text);
    if (section == kViewSection)
      user_error("{}: views can only be set in the recipe's file: [[view]]", place.text);
    if (!section.empty()) check_section(section, place);
    const RecipeKey& key = find_key(section, name, place);
    if (equals + 1 == text.size() && key.spec.kind != ir::ParameterKind::text)
      user_error("{}: it takes the form section.key=value", place.text);
    read_override_value(key, place, text.substr(equals + 1));
    note(key, place);
    if (key.selects) keys_ = recipe_keys(recipe_);  // same order, now with the selected one's keys
  }

 private:
  void read_section(const toml::key& section, const toml::table& table) {
    check_section(section.str(), Place::of(file_name_, section.source()));
    for (const bool selects : {true, false}) {  // selectors first: they decide which other keys there are
      for (const auto& [key, node] : table) {
        const bool is_selector = std::ranges::any_of(keys_, [&, name = key.str()](const RecipeKey& known) {
          return known.selects && known.section == section.str() && known.spec.name == name;
        });
        if (is_selector == selects) read_value(section.str(), key, node);
      }
      if (selects) keys_ = recipe_keys(recipe_);
    }
  }

  void read_value(std::string_view section, const toml::key& key, const toml::node& node) {
    const Place place = Place::of(file_name_, key.source());
    const RecipeKey& known = find_key(section, key.str(), place);
    refuse_second(known, place);
    ValueReader(known, place).read(node);
    note(known, place);
  }

  /// Refuses a key that is set under two spellings: which of the two counts would be arbitrary.
  void refuse_second(const RecipeKey& key, const Place& place) const {
    const auto index = static_cast<std::size_t>(&key - keys_.data());
    const auto given = std::ranges::find(given_, index, &std::pair<std::size_t, Place>::first);
    if (given != given_.end())
      user_error("{}: {} is already set, at {}", place.text, key.path(), given->second.text);
  }

  void note(const RecipeKey& key, const Place& place) {
    given_.emplace_back(static_cast<std::size_t>(&key - keys_.data()), place);
    if (key.spec.name != "name") return;
    if (key.section == "objective") tells_objective_ = true;
    if (key.section == "model") adopt_objective();
  }

  /// Without an objective of its own, a recipe has its model's.
  void adopt_objective() {
    if (tells_objective_) return;
    const auto model = std::ranges::find(models::models(), recipe_.model.name, &models::Model::name);
    recipe_.objective.name =
        model == models::models().end() ? Recipe().objective.name : std::string((*model)->family->objective);
  }

  void check_section(std::string_view section, const Place& place) const {
    const std::vector<std::string> names = section_names();
    if (std::ranges::find(names, section) == names.end()) {
      user_error("{}: unknown section [{}]{}", place.text, printable(section), did_you_mean(section, names));
    }
  }

  const RecipeKey& find_key(std::string_view given_section, std::string_view given_name,
                            const Place& place) const {
    const std::string path = current_path(fmt::format("{}.{}", given_section, given_name));
    const std::string section = path.substr(0, path.find('.')), name = path.substr(section.size() + 1);
    std::vector<std::string> names;
    std::string elsewhere;
    for (const RecipeKey& key : keys_) {
      if (key.section == section && key.spec.name == name) return key;
      if (key.section == section) names.emplace_back(key.spec.name);
      if (key.spec.name == name && elsewhere.empty())
        elsewhere = fmt::format(" (did you mean '{}'?)", key.path());
    }
    const std::vector<std::string> sections = section_names();
    if (section.empty() && std::ranges::find(sections, name) != sections.end()) {
      user_error("{}: {} is a section: write [{}]", place.text, name, name);
    }
    const std::string near = did_you_mean(name, names);
    user_error("{}: unknown key {}{}{}{}", place.text, section, section.empty() ? "" : ".", printable(name),
               near.empty() ? elsewhere : near);
  }

  std::vector<const toml::table*> tables_of(const toml::node& node, std::string_view what,
                                            std::string_view section) const {
    const Place place = Place::of(file_name_, node.source());
    const toml::array* list = node.as_array();
    if (list == nullptr) user_error("{}: {} are a list: write [[{}]]", place.text, what, section);
    std::vector<const toml::table*> tables;
    for (const toml::node& element : *list) {
      const toml::table* table = element.as_table();
      if (table == nullptr)
        user_error("{}: {} are a list of sections: write [[{}]]", place.text, what, section);
      tables.push_back(table);
    }
    return tables;
  }

  void read_views(const toml::node& node) {
    for (const toml::table* table : tables_of(node, "views", kViewSection)) {
      ViewSpec view;
      const std::vector<RecipeKey> keys = view_keys(view);
      for (const auto& [key, value] : *table) {
        const Place line = Place::of(file_name_, key.source());
        const auto known = std::ranges::find(
            keys, key.str(), [](const RecipeKey& each) -> std::string_view { return each.spec.name; });
        if (known == keys.end()) {
          std::vector<std::string> names;
          for (const RecipeKey& each : keys) names.push_back(each.spec.name);
          user_error("{}: unknown key view.{}{}", line.text, printable(key.str()),
                     did_you_mean(key.str(), names));
        }
        ValueReader(*known, line).read(value);
      }
      check_view(view, Place::of(file_name_, table->source()));
      recipe_.views.push_back(std::move(view));
    }
  }

  void check_view(const ViewSpec& view, const Place& place) const {
    constexpr std::string_view kTaken[] = {"image", "label", "target", "weight", "noise"};
    if (!ir::is_identifier(view.name))
      user_error("{}: this [[view]] needs a name: lower-case letters, digits and _", place.text);
    if (std::ranges::find(kTaken, view.name) != std::end(kTaken))
      user_error("{}: a batch already has a tensor '{}': give the view another name", place.text, view.name);
    if (std::ranges::find(recipe_.views, view.name, &ViewSpec::name) != recipe_.views.end())
      user_error("{}: there is already a view '{}'", place.text, view.name);
  }

  void read_plugins(const toml::node& node) {
    for (const toml::table* table : tables_of(node, "plugins", kPluginSection)) {
      const Place entry = Place::of(file_name_, table->source());
      PluginSpec& spec = recipe_.plugins.emplace_back();
      for (const auto& [key, value] : *table) {
        const Place line = Place::of(file_name_, key.source());
        if (key.str() == "name") {
          if (!value.is_string())
            user_error("{}: plugin.name takes a string, not {}", line.text, describe(value));
          spec.name = without_nul(value.ref<std::string>(), line.text, "plugin.name");
        } else {
          without_nul(std::string(key.str()), line.text, "the name of a plugin's parameter");
          spec.values.emplace_back(key.str(), plugin_value_text(value, line, key.str()));
        }
      }
      if (spec.name.empty()) user_error("{}: this [[plugin]] has no name", entry.text);
    }
  }

  /// Text that is TOML is read as a TOML value. Any other text is a string, so --set
  /// optimizer.name=sgd needs no quotes.
  static void read_override_value(const RecipeKey& key, const Place& place, const std::string& text) {
    const ValueReader reader(key, place);
    const toml::value<std::string> plain(text);
    toml::table parsed;
    try {
      parsed = parse_toml(fmt::format("value = {}", text), "");
    } catch (const UserError&) {
      reader.read(plain);
      return;
    }
    const toml::node* node = parsed.get("value");
    const bool wants_string =
        key.spec.kind == ir::ParameterKind::text || key.spec.kind == ir::ParameterKind::choice;
    const bool takes = !wants_string || (node != nullptr && node->is_string()) ||
                       (node != nullptr && key.check_words != nullptr && node->is_array());
    const bool usable = node != nullptr && parsed.size() == 1 && takes;
    reader.read(usable ? *node : static_cast<const toml::node&>(plain));
  }

  std::vector<std::string> section_names() const {
    std::vector<std::string> names{std::string(kViewSection), std::string(kPluginSection)};
    for (const RecipeKey& key : keys_) {
      if (!key.section.empty() && names.back() != key.section) names.emplace_back(key.section);
    }
    return names;
  }

  Recipe& recipe_;
  std::vector<RecipeKey> keys_;
  std::string_view file_name_;
  std::vector<std::pair<std::size_t, Place>> given_;  // keys that were read, and where
  bool tells_objective_ = false;
};

}  // namespace

Recipe parse_recipe(std::string_view text, std::string_view file_name,
                    const std::vector<std::string>& overrides, RecipeOf of, Recipe recipe) {
  RecipeReader reader(recipe, file_name);
  reader.read_text(text);
  if (of == RecipeOf::run) {
    reader.forget_given();
  } else {
    reader.check_effects(true);
  }
  for (const std::string& entry : overrides)
    reader.read_override(entry, {fmt::format("--set {}", printable(entry))});
  reader.check_effects(false);
  reader.check_preset();
  return recipe;
}

void apply_setting(Recipe& recipe, const std::string& setting, const std::string& place) {
  RecipeReader(recipe, "").read_override(setting, {place});
}

Recipe read_recipe(const FilePlace& place, const std::vector<std::string>& overrides, RecipeOf of) {
  const std::string& path = place.path();
  const std::vector<std::byte> bytes = read_file(place, kLargestToml);
  // Even if it is named as a file, a recipe beside choices.json is that of a run.
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(path).parent_path() / "choices.json", ignored))
    of = RecipeOf::run;
  return parse_recipe({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, overrides, of);
}

}  // namespace rewire::runtime

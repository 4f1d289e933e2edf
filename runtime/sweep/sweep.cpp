#include "runtime/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/recipe/keys.h"
#include "runtime/recipe/toml_text.h"

namespace rewire::runtime {
namespace {

/// How a number is written: as short as possible, or with 17 digits, as toml++ does.
enum class Digits : std::uint8_t { fewest, all };

/// A value as --set takes it: TOML on one line.
std::string setting_value(const toml::node& node, Digits digits) {
  std::ostringstream text;
  node.visit([&](const auto& value) {
    using Node = std::decay_t<decltype(value)>;
    if constexpr (toml::is_floating_point<Node>) {
      if (digits == Digits::fewest) {
        text << toml_text(value.get());
      } else {
        text << toml::toml_formatter(value);
      }
    } else if constexpr (toml::is_value<Node>) {
      text << toml::toml_formatter(value);
    } else if constexpr (toml::is_array<Node>) {
      text << '[';
      const char* comma = "";
      for (const toml::node& element : value) {
        text << comma << setting_value(element, digits);
        comma = ", ";
      }
      text << ']';
    }
  });
  return text.str();
}

/// "./build/mine.so:key=value" as "mine:key=value".
std::string without_folder(const std::string& flag) {
  const std::size_t colon = std::min(flag.find(':'), flag.size());
  return std::filesystem::path(flag.substr(0, colon)).stem().string() + flag.substr(colon);
}

class SweepReader {
 public:
  SweepReader(Sweep& sweep, std::string_view file_name) : sweep_(sweep), file_name_(file_name) {}

  void read(std::string_view text) {
    const toml::table root = parse_toml(text, file_name_);
    for (const auto& [key, node] : root) {
      const std::string place = Place::of(file_name_, key.source()).text;
      if (key.str() == "recipe") {
        read_recipe(node, place);
      } else if (key.str() == "seeds") {
        read_seeds(node, place);
      } else if (key.str() == "plugins") {
        read_plugins(node, place);
      } else if (key.str() == "settings") {
        if (!node.is_table()) user_error("{}: settings is a section: write [settings]", place);
        read_settings("", *node.as_table());
      } else {
        user_error("{}: unknown key {}{}", place, printable(key.str()),
                   did_you_mean(key.str(), {"recipe", "seeds", "plugins", "settings"}));
      }
    }
    if (sweep_.recipe.text.empty())
      user_error("{}: it names no recipe: add recipe = \"FILE.toml\"", file_name_);
    if (sweep_.plugins.empty()) sweep_.plugins.push_back({{}, "", std::string(file_name_)});
    check_size();
  }

 private:
  void check_size() const {
    constexpr double kMost = 10000;
    double runs = static_cast<double>(sweep_.plugins.size() * std::max<std::size_t>(sweep_.seeds.size(), 1));
    for (const SweepAxis& axis : sweep_.axes) runs *= static_cast<double>(axis.settings.size());
    if (runs > kMost)
      user_error("{}: {} runs are too many: a sweep may have at most {}", file_name_, runs, kMost);
  }

  void read_recipe(const toml::node& node, const std::string& place) {
    if (!node.is_string()) user_error("{}: recipe takes a string, not {}", place, describe(node));
    sweep_.recipe = {without_nul(node.ref<std::string>(), place, "recipe"), place};
  }

  void read_seeds(const toml::node& node, const std::string& place) {
    const toml::array* list = node.as_array();
    if (list == nullptr || list->empty())
      user_error("{}: seeds takes a list of integers, [0, 1, 2], not {}", place,
                 list == nullptr ? describe(node) : "an empty one");
    Recipe checked;
    for (const toml::node& element : *list) {
      const std::string line = Place::of(file_name_, element.source()).text;
      if (!element.is_integer()) user_error("{}: seeds takes integers, not {}", line, describe(element));
      const std::int64_t seed = element.ref<std::int64_t>();
      apply_setting(checked, fmt::format("seed={}", seed), line);
      if (std::ranges::find(sweep_.seeds, seed) != sweep_.seeds.end())
        user_error("{}: seed {} appears twice", line, seed);
      sweep_.seeds.push_back(seed);
    }
  }

  void read_plugins(const toml::node& node, const std::string& place) {
    const toml::array* list = node.as_array();
    if (list == nullptr || list->empty()) {
      user_error("{}: plugins takes a list, [\"none\", \"NAME:key=value\"], not {}", place,
                 list == nullptr ? describe(node) : "an empty one");
    }
    for (const toml::node& element : *list) {
      SweepPlugins plugins;
      plugins.place = Place::of(file_name_, element.source()).text;
      if (const toml::array* several = element.as_array()) {
        for (const toml::node& one : *several) plugins.flags.push_back(plugin_text(one, plugins.place));
      } else {
        plugins.flags.push_back(plugin_text(element, plugins.place));
      }
      if (plugins.flags.empty())
        user_error("{}: an empty list of plugins: write \"none\" for no plugin", plugins.place);
      check_flags(plugins);
      for (const std::string& flag : plugins.flags)
        plugins.label += (plugins.label.empty() ? "" : " + ") + without_folder(flag);
      if (std::ranges::find(sweep_.plugins, plugins.flags, &SweepPlugins::flags) != sweep_.plugins.end())
        user_error("{}: '{}' appears twice", plugins.place, printable(plugins.label));
      sweep_.plugins.push_back(std::move(plugins));
    }
  }

  static std::string plugin_text(const toml::node& node, const std::string& place) {
    if (!node.is_string())
      user_error("{}: a plugin is a string, \"NAME:key=value\", not {}", place, describe(node));
    return without_nul(node.ref<std::string>(), place, "a plugin");
  }

  static void check_flags(const SweepPlugins& plugins) {
    Recipe checked;
    try {
      override_plugins(checked, plugins.flags);
    } catch (const UserError& error) {
      user_error("{}: {}", plugins.place, error.what());
    }
  }

  void read_settings(const std::string& prefix, const toml::table& table) {
    for (const auto& [key, node] : table) {
      const std::string name = prefix + std::string(key.str());
      if (const toml::table* deeper = node.as_table()) {
        if (deeper->empty())
          user_error("{}: {} has no value", Place::of(file_name_, key.source()).text, printable(name));
        read_settings(name + ".", *deeper);
      } else {
        read_axis(name, node, Place::of(file_name_, key.source()).text);
      }
    }
  }

  void read_axis(const std::string& key, const toml::node& node, const std::string& place) {
    if (key == "seed") user_error("{}: seeds are set by seeds = [0, 1, 2]", place);
    SweepAxis axis{key, {}};
    const toml::array* list = node.as_array();
    // A list of lists is an axis, for a key whose value is itself a list.
    const bool is_value =
        list == nullptr || (takes_list(key) && (list->empty() || !list->front().is_array()));
    if (is_value) {
      add(axis, node, place);
    } else {
      if (list->empty()) user_error("{}: {} has no value", place, printable(key));
      for (const toml::node& element : *list)
        add(axis, element, Place::of(file_name_, element.source()).text);
    }
    sweep_.axes.push_back(std::move(axis));
  }

  static void add(SweepAxis& axis, const toml::node& value, const std::string& place) {
    const std::string setting = fmt::format("{}={}", axis.key, setting_value(value, Digits::fewest));
    Recipe checked;
    apply_setting(checked, setting, place);
    if (std::ranges::find(axis.settings, setting, &SweepSetting::text) != axis.settings.end())
      user_error("{}: {} appears twice", place, printable(setting));
    axis.settings.push_back(
        {setting, fmt::format("{}={}", axis.key, setting_value(value, Digits::all)), place});
  }

  static bool takes_list(const std::string& path) {
    Recipe recipe;
    const std::vector<RecipeKey> keys = recipe_keys(recipe);
    const auto key =
        std::ranges::find_if(keys, [&](const RecipeKey& k) { return k.path() == current_path(path); });
    return key != keys.end() && key->spec.kind == ir::ParameterKind::numbers;
  }

  Sweep& sweep_;
  std::string_view file_name_;
};

/// Returns a name fit for a folder. A plugin's path gives its stem; characters that a
/// shell interprets become '-'.
std::string slug(const SweepPlugins& plugins, const std::vector<std::string>& varied) {
  std::string text = plugins.flags.empty() ? "recipe" : "";
  for (const std::string& flag : plugins.flags) text += (text.empty() ? "" : "-") + without_folder(flag);
  for (const std::string& setting : varied)
    text += "-" + setting.substr(setting.rfind('.', setting.find('=')) + 1);
  for (char& c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("._=+").find(c) != std::string_view::npos;
    if (!plain) c = '-';
  }
  if (text.starts_with('.')) text.front() = '-';
  constexpr std::size_t kLongest = 120;
  return text.substr(0, kLongest);
}

/// Returns the settings of every combination; the last axis varies fastest.
std::vector<std::vector<std::size_t>> combinations(const std::vector<SweepAxis>& axes) {
  std::vector<std::vector<std::size_t>> result = {{}};
  for (const SweepAxis& axis : axes) {
    std::vector<std::vector<std::size_t>> longer;
    for (const std::vector<std::size_t>& begun : result) {
      for (std::size_t i = 0; i < axis.settings.size(); ++i) {
        longer.push_back(begun);
        longer.back().push_back(i);
      }
    }
    result = std::move(longer);
  }
  return result;
}

/// Returns `base`, with a number after it if the name is taken.
std::string not_taken(const std::string& base, std::set<std::string>& taken) {
  std::string name = base;
  for (int number = 2; !taken.insert(name).second; ++number) name = fmt::format("{}-{}", base, number);
  return name;
}

}  // namespace

Sweep parse_sweep(std::string_view text, std::string_view file_name) {
  Sweep sweep;
  SweepReader(sweep, file_name).read(text);
  return sweep;
}

Sweep read_sweep(const std::string& path) {
  const std::vector<std::byte> bytes = read_file(FilePlace::of_user(path), kLargestToml);
  Sweep sweep = parse_sweep({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  std::string& recipe = sweep.recipe.text;
  if (recipe.ends_with(".toml") || recipe.ends_with(".rir"))
    recipe = (std::filesystem::path(path).parent_path() / recipe).lexically_normal().string();
  return sweep;
}

std::vector<SweepRun> sweep_runs(const Sweep& sweep) {
  std::vector<SweepRun> runs;
  std::set<std::string> taken, formerly_taken;
  std::size_t row = 0;
  for (const SweepPlugins& plugins : sweep.plugins) {
    for (const std::vector<std::size_t>& choice : combinations(sweep.axes)) {
      SweepRun run;
      std::vector<std::string> formerly_varied;
      run.row = row++;
      run.plugins = &plugins;
      for (std::size_t i = 0; i < choice.size(); ++i) {
        const SweepAxis& axis = sweep.axes[i];
        run.settings.push_back(axis.settings[choice[i]].text);
        if (axis.settings.size() == 1) continue;
        run.varied.push_back(run.settings.back());
        formerly_varied.push_back(axis.settings[choice[i]].former);
      }
      run.name = not_taken(slug(plugins, run.varied), taken);
      run.former_name = not_taken(slug(plugins, formerly_varied), formerly_taken);
      if (sweep.seeds.empty()) runs.push_back(run);
      for (const std::int64_t seed : sweep.seeds) {
        SweepRun seeded = run;
        for (std::string* name : {&seeded.name, &seeded.former_name}) *name += fmt::format("-s{}", seed);
        seeded.seed = seed;
        seeded.settings.push_back(fmt::format("seed={}", seed));
        runs.push_back(std::move(seeded));
      }
    }
  }
  return runs;
}

}  // namespace rewire::runtime

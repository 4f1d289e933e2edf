#include "cli/complete.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>

#include "cli/complete_paths.h"
#include "formula/formulas.h"
#include "ir/error.h"
#include "models/model.h"
#include "runtime/plugin/filters.h"
#include "runtime/plugin/plugin.h"
#include "runtime/recipe/key_info.h"
#include "runtime/run/run_folder.h"

namespace rewire::cli {
namespace {

using Candidates = std::vector<Candidate>;

/// The words before the word that is completed.
struct Given {
  std::vector<std::pair<const OptionInfo*, std::string>> values;
  const OptionInfo* open = nullptr;  // waits for its value
  std::size_t arguments = 0;         // positional ones
  bool options_end = false;          // after --

  bool has(const OptionInfo& option) const {
    return std::ranges::any_of(values, [&](const auto& value) { return value.first == &option; });
  }
  std::vector<std::string> of(Values::Kind kind) const {
    std::vector<std::string> found;
    for (const auto& [option, value] : values) {
      if (option->values.kind == kind) found.push_back(value);
    }
    return found;
  }
  std::vector<std::string> of(std::string_view name) const {
    std::vector<std::string> found;
    for (const auto& [option, value] : values) {
      if (option->name == name) found.push_back(value);
    }
    return found;
  }
};

const OptionInfo* find_option(const Declaration& declaration, std::string_view name) {
  const auto found = std::ranges::find(declaration.options, name, &OptionInfo::name);
  return found == declaration.options.end() ? nullptr : &*found;
}

/// Returns the argument at this position. For later positions,
/// returns the last one if it takes several values.
const OptionInfo* argument_at(const Declaration& declaration, std::size_t number) {
  const OptionInfo* last = nullptr;
  for (const OptionInfo& option : declaration.options) {
    if (!option.is_argument()) continue;
    if (number == 0) return &option;
    --number;
    last = &option;
  }
  return last != nullptr && last->repeatable ? last : nullptr;
}

Given read_given(const Declaration& declaration, const std::vector<std::string>& words) {
  Given given;
  for (const std::string& word : words) {
    if (given.open != nullptr) {
      given.values.emplace_back(given.open, word);
      given.open = nullptr;
    } else if (!given.options_end && word == "--") {
      given.options_end = true;
    } else if (!given.options_end && word.starts_with("--")) {
      const std::size_t equals = word.find('=');
      const OptionInfo* option = find_option(declaration, word.substr(0, equals));
      if (option == nullptr) continue;
      if (option->takes_value() && equals == std::string::npos) {
        given.open = option;
      } else {
        given.values.emplace_back(option, equals == std::string::npos ? "" : word.substr(equals + 1));
      }
    } else if (const OptionInfo* argument = argument_at(declaration, given.arguments)) {
      given.values.emplace_back(argument, word);
      ++given.arguments;
    }
  }
  return given;
}

void append(Candidates& all, Candidates more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// Puts `prefix` before each candidate.
Candidates behind(const std::string& prefix, Candidates candidates) {
  for (Candidate& candidate : candidates) candidate.word.insert(0, prefix);
  return candidates;
}

Candidates zoo() {
  Candidates candidates;
  for (const models::Model* model : models::models())
    candidates.push_back({std::string(model->name), std::string(model->doc)});
  return candidates;
}

Candidates of_models(const std::string& word) {
  Candidates candidates = zoo();
  append(candidates, files_at(word, {".toml", ".rir"}));
  return candidates;
}

/// Returns the recipe that the command line selects, as far as it can be read.
runtime::Recipe recipe_of(const Given& given) {
  runtime::Recipe recipe;
  for (const Values::Kind kind : {Values::model, Values::trained, Values::run}) {
    for (const std::string& model : given.of(kind)) {
      try {
        if (is_run_folder(model)) {
          recipe = runtime::read_recipe(runtime::FilePlace::below(model, "recipe.toml"), {},
                                        runtime::RecipeOf::run);
        } else if (model.ends_with(".toml")) {
          recipe = runtime::read_recipe(model);  // refuses a pipe, which could block
        } else {
          recipe.model.name = model;
        }
      } catch (const std::exception&) {  // completion works without it
      }
    }
  }
  for (const std::string& setting : given.of(Values::setting)) {
    try {
      runtime::apply_setting(recipe, setting, "--set");
    } catch (const std::exception&) {
    }
  }
  return recipe;
}

Candidates of_key_values(const runtime::KeyInfo& key, const std::string& value) {
  Candidates candidates;
  for (const ir::NamedDoc& one : key.values) {
    const bool is_default = one.name == key.default_value;
    const std::string separator = one.doc.empty() ? "" : "; ";
    candidates.push_back({one.name, one.doc + (is_default ? separator + "the default" : "")});
  }
  if (key.path == "model.name") candidates = zoo();
  if (key.is_path) candidates = files_at(value, {});
  if (candidates.empty() && !key.default_value.empty() && key.kind != "list")
    candidates.push_back(
        {key.default_value, key.range.empty() ? "the default" : "the default; " + key.range});
  return candidates;
}

/// Offers sections first, then their keys, then the values of a key.
Candidates of_settings(const std::string& word, const std::vector<std::string>& sections,
                       const Given& given) {
  const std::vector<runtime::KeyInfo> keys = runtime::key_infos(recipe_of(given));
  const std::size_t equals = word.find('=');
  if (equals != std::string::npos) {
    const auto key = std::ranges::find(keys, word.substr(0, equals), &runtime::KeyInfo::path);
    if (key == keys.end()) return {};
    return behind(word.substr(0, equals + 1), of_key_values(*key, word.substr(equals + 1)));
  }
  Candidates candidates, whole;
  for (const runtime::KeyInfo& key : keys) {
    const std::string section(key.section());
    if (!key.has_effect || !key.path.starts_with(word)) continue;
    if (!sections.empty() && std::ranges::find(sections, section) == sections.end()) continue;
    candidates.push_back({key.path + "=", key.doc});
    if (section.empty()) {
      whole.push_back(candidates.back());
    } else if (std::ranges::find(whole, section + ".", &Candidate::word) == whole.end()) {
      whole.push_back({section + ".", "keys of [" + section + "]"});
    }
  }
  return whole.size() == 1 || word.find('.') != std::string::npos ? candidates : whole;
}

/// Returns the names of plugins, with docs as far as they can be read without a noticeable delay.
Candidates plugin_names(const std::string& word, const Given& given) {
  constexpr std::chrono::milliseconds kLongest{60};
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::string> folders = given.of("--plugin-path");
  Candidates candidates;
  for (const std::string& name : runtime::find_plugin_names(folders)) {
    if (!name.starts_with(word)) continue;
    Candidate& candidate = candidates.emplace_back(Candidate{name});
    if (std::chrono::steady_clock::now() - start > kLongest) continue;
    if (const auto info = runtime::inspect_agreed(name, folders)) candidate.doc = info->doc;
  }
  return candidates;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Returns the plugin's parameters, or only the host's filters if its library must not be run.
std::vector<ir::ParameterInfo> parameters_of(const std::string& plugin, const Given& given) {
  const auto info = runtime::inspect_agreed(plugin, given.of("--plugin-path"));
  return info ? info->parameters : runtime::Filters::infos();
}

/// Splits KEY=VALUE,KEY=VALUE at the commas outside quoted values. The last value's quote may still be open.
std::vector<std::string> pairs_of(std::string_view text) {
  std::vector<std::string> pairs(1);
  char quote = 0;
  for (const char c : text) {
    if (c == ',' && quote == 0) {
      pairs.emplace_back();
      continue;
    }
    if (c == quote) {
      quote = 0;
    } else if ((c == '"' || c == '\'') && quote == 0 && pairs.back().ends_with('=')) {
      quote = c;
    }
    pairs.back() += c;
  }
  return pairs;
}

/// Completes the last name of an expression.
Candidates of_formula(const std::string& text) {
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  const std::string before = text.substr(0, text.find_last_not_of(kLetters) + 1);
  Candidates candidates;
  for (const std::string& name : formula::join_names()) candidates.push_back({before + name});
  for (const std::string& name : formula::functions()) candidates.push_back({before + name + "("});
  // An argument may be one of these words.
  if (std::ranges::count(before, '(') > std::ranges::count(before, ')'))
    for (const std::string& word : formula::domains()) candidates.push_back({before + word});
  return candidates;
}

/// Completes NAME:key=value,key=value.
Candidates of_plugins(const std::string& word, const Given& given) {
  const std::size_t colon = word.find(':');
  if (colon == std::string::npos) {
    if (word.find('/') != std::string::npos || word.starts_with('.')) return files_at(word, {".so"});
    Candidates candidates = plugin_names(word, given);
    candidates.push_back({"none", "plain joins"});
    if (!word.empty()) append(candidates, files_at(word, {".so"}));
    return candidates;
  }
  const std::vector<std::string> pairs = pairs_of(std::string_view(word).substr(colon + 1));
  const std::string& last = pairs.back();
  const std::size_t equals = last.find('=');
  const std::string done = word.substr(0, word.size() - last.size());
  Candidates candidates;
  for (const ir::ParameterInfo& parameter : parameters_of(word.substr(0, colon), given)) {
    const bool taken = std::ranges::any_of(pairs, [&](const std::string& pair) {
      return &pair != &last && pair.starts_with(parameter.name + "=");
    });
    if (equals == std::string::npos && !taken) candidates.push_back({parameter.name + "=", parameter.doc});
    if (equals == std::string::npos || last.substr(0, equals) != parameter.name) continue;
    if (word.starts_with("formula:") && parameter.type == "str") {
      append(candidates, of_formula(last));
      continue;
    }
    std::vector<std::string> values;
    if (parameter.type == "bool") values = {"true", "false"};
    if (parameter.type == "enum") values = split(parameter.range, '|');
    if (values.empty() && !parameter.default_value.empty()) values = {parameter.default_value};
    for (const std::string& value : values)
      candidates.push_back(
          {parameter.name + "=" + value, value == parameter.default_value ? "the default" : ""});
  }
  return behind(done, std::move(candidates));
}

Candidates of_checkpoints(const Given& given) {
  Candidates candidates = {{"last", "the newest"}, {"best", "the one with the best evaluation"}};
  for (const Values::Kind kind : {Values::run, Values::trained, Values::model}) {
    for (const std::string& run : given.of(kind)) {
      if (!is_run_folder(run)) continue;
      for (const std::string& path : runtime::RunFolder::open(run).checkpoints())
        candidates.push_back({std::filesystem::path(path).filename().string(), "epoch and step"});
    }
  }
  return candidates;
}

/// Completes NAME=FILE or FILE.
Candidates of_named_files(const std::string& word, const std::vector<std::string>& endings) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) return files_at(word, endings);
  return behind(word.substr(0, equals + 1), files_at(word.substr(equals + 1), endings));
}

/// Offers the next word, after the words that are already given.
Candidates of_words(const OptionInfo& option, const Given& given) {
  std::string before;
  if (option.is_argument() && option.repeatable) {
    for (const auto& [known, value] : given.values) before += known == &option ? value + " " : "";
  }
  Candidates candidates;
  for (const Offer& offer : option.values.offers()) {
    if (!offer.word.starts_with(before)) continue;
    const std::string rest = offer.word.substr(before.size());
    const std::string word = rest.substr(0, rest.find(' '));
    if (std::ranges::find(candidates, word, &Candidate::word) == candidates.end())
      candidates.push_back({word, word == rest ? offer.doc : ""});
  }
  return candidates;
}

Candidates of_value(const OptionInfo& option, const std::string& word, const Given& given) {
  Candidates candidates;
  for (const std::string& choice : option.choices)
    candidates.push_back({choice, choice == option.default_value ? "the default" : ""});
  const std::vector<std::string>& of = option.values.of;
  switch (option.values.kind) {
    case Values::text:
      return candidates;
    case Values::file:
      return files_at(word, of);
    case Values::named_file:
      return of_named_files(word, of);
    case Values::folder:
      return folders_at(word);
    case Values::run:
      return runs_at(word);
    case Values::model:
      return of_models(word);
    case Values::trained: {
      candidates = runs_at(word);
      append(candidates, zoo());
      append(candidates, files_at(word, {".toml", ".rir"}));
      return candidates;
    }
    case Values::checkpoint: {
      candidates = of_checkpoints(given);
      for (const std::string& more : of) candidates.push_back({more});
      return candidates;
    }
    case Values::setting:
      return of_settings(word, of, given);
    case Values::plugin:
      return of_plugins(word, given);
    case Values::formula:
      return of_formula(word);
    case Values::plugin_name: {
      candidates = plugin_names(word, given);
      if (!word.empty()) append(candidates, files_at(word, {".so"}));
      return candidates;
    }
    case Values::words:
      return of_words(option, given);
  }
  return candidates;
}

Candidates of_options(const Declaration& declaration, const Given& given) {
  Candidates candidates;
  for (const OptionInfo& option : declaration.options) {
    if (!option.is_argument() && (option.repeatable || !given.has(option)))
      candidates.push_back({option.name, option.doc});
  }
  return candidates;
}

Candidates of_command(const Command& command, const std::vector<std::string>& before,
                      const std::string& word) {
  const Declaration declaration = declaration_of(command);
  const Given given = read_given(declaration, before);
  if (given.open != nullptr) return of_value(*given.open, word, given);
  if (!given.options_end && word.starts_with('-')) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return of_options(declaration, given);
    const OptionInfo* option = find_option(declaration, word.substr(0, equals));
    if (option == nullptr || !option->takes_value()) return {};
    return behind(word.substr(0, equals + 1), of_value(*option, word.substr(equals + 1), given));
  }
  if (const OptionInfo* argument = argument_at(declaration, given.arguments))
    return of_value(*argument, word, given);
  return given.options_end ? Candidates() : of_options(declaration, given);
}

/// Returns the first words of commands. If no command has that name alone, the doc lists the second words.
Candidates of_first_words(const std::vector<Command>& commands) {
  Candidates candidates;
  for (const Command& command : commands) {
    const std::string first = command.name.substr(0, command.name.find(' '));
    const auto known = std::ranges::find(candidates, first, &Candidate::word);
    if (known == candidates.end()) {
      candidates.push_back(
          {first, first == command.name ? command.doc : first + " " + command.name.substr(first.size() + 1)});
    } else if (command.name != first && known->doc.starts_with(first + " ")) {
      known->doc += ", " + command.name.substr(first.size() + 1);
    }
  }
  append(candidates, {{"--help", "list the commands"}, {"--version", "print the version"}});
  return candidates;
}

Candidates all_candidates(const std::vector<Command>& commands, const std::vector<std::string>& words) {
  if (words.size() == 1) return of_first_words(commands);
  std::vector<std::string> before(words.begin(), words.end() - 1);
  const std::string& word = words.back();
  Candidates candidates;
  if (before.size() == 1 && !word.starts_with('-')) {
    for (const Command& command : commands_of(commands, before.front()))
      candidates.push_back({command.name.substr(command.name.find(' ') + 1), command.doc});
  }
  if (const Command* command = find_command(commands, before))
    append(candidates, of_command(*command, before, word));
  return candidates;
}

}  // namespace

std::vector<Candidate> complete(const std::vector<Command>& commands, const std::vector<std::string>& words) {
  if (words.empty()) return {};
  const std::string& word = words.back();
  Candidates candidates = all_candidates(commands, words);
  const auto hidden = [&](const Candidate& candidate) {
    return !candidate.word.starts_with(word) || (candidate.word.starts_with('-') && !word.starts_with('-') &&
                                                 candidates.front().word.front() != '-');
  };
  Candidates kept;
  for (const Candidate& candidate : candidates) {
    if (!candidate.word.empty() && !hidden(candidate) &&
        std::ranges::find(kept, candidate.word, &Candidate::word) == kept.end())
      kept.push_back(candidate);
  }
  return kept;
}

}  // namespace rewire::cli
